"""Each family against an oracle of its own: chains of drafts, before and after partial acceptance."""

from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor
from torch.nn.functional import linear

from acctax.config import AS_LOADED, HubTarget
from acctax.decode.rules import Greedy
from acctax.draft.heads.checkpoint import open_head
from acctax.draft.heads.head import Head
from acctax.draft.heads.source import HeadSource
from acctax.models.checkpoint import open_checkpoint
from acctax.models.decoder import NORMED, Decoder
from tests.draft.heads import oracle, published
from tests.draft.heads.published import LAYERS, TARGET, VOCAB
from tests.tiny import save_model

TEXT = [int(i) for i in torch.randint(3, VOCAB, (40,), generator=torch.Generator().manual_seed(5))]
PRE = LAYERS  # the last layer's output before the final norm


@dataclass
class Family:
    head: published.Published
    layer: oracle.Layer
    states: tuple[int, ...]
    norm: Tensor | None
    recycles_normed: bool
    fuse: object = None  # EAGLE-3: the states side by side → what the layer takes
    embedding: Tensor | None = None
    lm_head: Tensor | None = None

    @property
    def kind(self):
        return "eagle" if self.fuse or self.norm is None else "mtp"

    @property
    def ids(self):
        d2t = self.head.tensors.get("d2t")
        return torch.arange(VOCAB) if d2t is None else torch.arange(len(d2t)) + d2t


def eagle3():
    head = published.eagle3()
    w = head.tensors
    return Family(head, oracle.eagle3_layer(w, "midlayer."), (2, 4, 5), w["norm.weight"], False,
                  lambda f: linear(f, w["fc.weight"]), lm_head=w["lm_head.weight"])  # fmt: skip


def eagle3_speculators(states=(1, 4, PRE), **flags):
    head = published.eagle3_speculators(states, **flags)
    w, H = head.tensors, published.HIDDEN

    def fuse(f):
        if flags.get("norm_before_fc"):
            f = oracle.rms(f, w["input_norm.weight"])
        if flags.get("fc_norm"):
            f = torch.cat([oracle.rms(p, w[f"fc_norm.{i}.weight"]) for i, p in enumerate(f.split(H, -1))], -1)
        return linear(f, w["fc.weight"])

    layer = oracle.eagle3_layer(w, "layers.0.", flags.get("norm_before_residual", False))
    return Family(head, layer, states, w["norm.weight"], flags.get("norm_output", False), fuse)


def eagle1():
    head = published.eagle1()
    w = head.tensors
    return Family(head, oracle.eagle1_layer(w), (NORMED,), None, False, embedding=w["embed_tokens.weight"])


def deepseek():
    head, p = published.deepseek(), f"model.layers.{LAYERS}."
    w = head.tensors
    layer = oracle.mtp_layer(w, p, f"{p}enorm.weight", f"{p}hnorm.weight", f"{p}eh_proj.weight", blind_start=True)
    return Family(head, layer, (NORMED,), w[f"{p}shared_head.norm.weight"], True,
                  embedding=w[f"{p}embed_tokens.weight"], lm_head=w[f"{p}shared_head.head.weight"])  # fmt: skip


def qwen(model_type):
    head = published.qwen(model_type)
    w = head.tensors
    layer = oracle.mtp_layer(w, "mtp.layers.0.", "mtp.pre_fc_norm_embedding.weight", "mtp.pre_fc_norm_hidden.weight",
                             "mtp.fc.weight", offset=1.0, rotary=4, gated=True)  # fmt: skip
    return Family(head, layer, (NORMED,), w["mtp.norm.weight"] + 1, True)


def speculators_like(head, p, state, recycles_normed, **kind):
    w = head.tensors
    layer = oracle.mtp_layer(w, p, f"{p}token_layernorm.weight", f"{p}hidden_layernorm.weight", f"{p}input_proj.weight",
                             **kind)  # fmt: skip
    return Family(head, layer, (state,), w[f"{p}final_layernorm.weight"], recycles_normed)


def mimo(state, recycles_normed):
    head = published.mimo("post_norm" if state == NORMED else "pre_norm")
    return speculators_like(head, "model.mtp_layers.0.", state, recycles_normed, hidden_first=True, blind_start=True)


def mtp_speculators(state):
    head = published.mtp_speculators("post_norm" if state == NORMED else "pre_norm")
    return speculators_like(head, "mtp_layers.0.", state, True)


FAMILIES = {
    "eagle3": eagle3,
    "eagle3_speculators": eagle3_speculators,
    "eagle3_residual_after_norm": lambda: eagle3_speculators(norm_before_residual=True),
    "eagle3_norm_before_fc": lambda: eagle3_speculators(norm_before_fc=True),
    "eagle3_fc_norm_and_output": lambda: eagle3_speculators(fc_norm=True, norm_output=True),
    "eagle3_qwen3_block": lambda: eagle3_speculators(block="qwen3"),
    "eagle3_two_states": lambda: eagle3_speculators(states=(0, 6)),
    "eagle1": eagle1,
    "deepseek": deepseek,
    "qwen3_next": lambda: qwen("qwen3_next"),
    "qwen3_5": lambda: qwen("qwen3_5_text"),
    "mimo_post_norm": lambda: mimo(NORMED, True),
    "mimo_pre_norm": lambda: mimo(PRE, False),
    "mtp_speculators_post_norm": lambda: mtp_speculators(NORMED),
    "mtp_speculators_pre_norm": lambda: mtp_speculators(PRE),
}  # fmt: skip


class Target:
    """transformers' model: its weights, and the hidden states of a text by our numbers."""

    def __init__(self, folder):
        self.model = save_model(TARGET, folder)
        self.checkpoint = open_checkpoint(HubTarget("hf", str(folder)))
        before_norm = []
        hook = self.model.model.norm.register_forward_hook(lambda module, inputs, output: before_norm.append(inputs[0]))
        with torch.no_grad():
            states = self.model(torch.tensor([TEXT]), output_hidden_states=True).hidden_states
        hook.remove()
        self.states = {i: states[i][0] for i in range(LAYERS)} | {PRE: before_norm[0][0], NORMED: states[-1][0]}
        self.embedding = self.model.model.embed_tokens.weight.detach()
        self.lm_head = self.model.lm_head.weight.detach()

    def features(self, wanted):
        return torch.cat([self.states[i] for i in wanted], dim=-1)


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return Target(tmp_path_factory.mktemp("target"))


class Recorder:
    """A draw that takes the best draft and keeps what it saw."""

    def __init__(self):
        self.logits = []

    def __call__(self, logits, generator):
        self.logits.append(logits)
        return Greedy().draw(logits, generator)


class Drafter:
    """The head under test, fed with transformers' states."""

    def __init__(self, family, target, folder, change=lambda config: config):
        checkpoint = open_head(family.head.save(folder), family.kind, target.checkpoint)
        head = Head.load(checkpoint, AS_LOADED, 64, torch.float32)
        head.config = change(head.config)
        self.target, self.recorder = target, Recorder()
        self.source = HeadSource(head, VOCAB)
        self.length = 0

    def begin(self, length):
        self.length = length
        self.source.begin(TEXT[:length], 0, self._features(0, length - 1))

    def draft(self, K):
        self.recorder.logits.clear()
        return self.source.draft(K, self.recorder).tokens, list(self.recorder.logits)

    def commit(self, accepted, K):
        """As if the text's next tokens were what the target kept: n drafts and one more."""
        self.source.accept(accepted)
        start, self.length = self.length, self.length + accepted + 1
        self.source.process(TEXT[start : self.length], self._features(start - 1, start + K))

    def _features(self, start, end):
        return self.target.features(self.source.wants)[start:end]


def expected(family, target, length, K):
    """The oracle's chain after `length` tokens of the text, from nothing."""
    features = target.features(family.states)[: length - 1]
    states = family.fuse(features) if family.fuse else features
    embedding = target.embedding if family.embedding is None else family.embedding
    lm_head = target.lm_head[family.ids] if family.lm_head is None else family.lm_head
    return oracle.chain(family.layer, embedding, lm_head, family.norm, family.recycles_normed, states, TEXT[1:length],
                        family.ids, K)  # fmt: skip


def assert_as_expected(got, wanted):
    (tokens, logits), (oracle_tokens, oracle_logits) = got, wanted
    torch.testing.assert_close(torch.stack(logits), torch.stack(oracle_logits), atol=1e-4, rtol=0)
    assert tokens == oracle_tokens


@pytest.mark.parametrize("name", FAMILIES)
def test_chains_are_the_oracles(name, target, tmp_path):
    """After the prompt, after every number of accepted drafts, and after cycles that drafted nothing."""
    family = FAMILIES[name]()
    drafter = Drafter(family, target, tmp_path)
    assert drafter.source.wants == family.states
    drafter.begin(9)
    for accepted, K in ((0, 5), (3, 4), (4, 4), (1, 2), (0, 0), (0, 0), (6, 6), (2, 3)):
        got = drafter.draft(K)
        if K:
            assert_as_expected(got, expected(family, target, drafter.length, K))
        drafter.commit(accepted, K)
    assert_as_expected(drafter.draft(6), expected(family, target, drafter.length, 6))


def differs(family, target, folder, change=lambda config: config):
    """How far the first and the second draft's logits are from the oracle's of the unchanged head."""
    wanted = expected(family, target, 12, 2)[1]
    drafter = Drafter(family, target, folder, change)
    drafter.begin(12)
    return [float((a - b).abs().max()) for a, b in zip(drafter.draft(2)[1], wanted)]


@pytest.mark.parametrize("name", FAMILIES)
def test_another_order_in_the_joint_is_another_head(name, target, tmp_path):
    """A token's embedding and a state that change places load and run: only the oracle tells."""
    family = FAMILIES[name]()
    sound = family.head.tensors
    joints = ("q_proj.weight", "k_proj.weight", "v_proj.weight") if family.fuse else (
        "fc.weight", "eh_proj.weight", "input_proj.weight")  # fmt: skip
    joints = [name for name in sound if name.endswith(joints)]
    assert len(joints) == (3 if family.fuse else 1)
    swapped = {n: torch.cat(sound[n].chunk(2, 1)[::-1], 1) for n in joints}
    other = replace(family, head=published.Published(family.head.config, sound | swapped))
    assert differs(family, target, tmp_path / "sound")[0] < 1e-4
    wanted = expected(family, target, 12, 1)[1][0]
    drafter = Drafter(other, target, tmp_path / "swapped")
    drafter.begin(12)
    assert float((drafter.draft(1)[1][0] - wanted).abs().max()) > 0.1


@pytest.mark.parametrize("name", FAMILIES)
def test_another_norm_is_another_head(name, target, tmp_path):
    """Recycling before the last norm, taking the state before it: the first error shows from the second draft on."""
    family = FAMILIES[name]()
    if family.norm is not None:
        first, second = differs(family, target, tmp_path, lambda c: replace(c, recycles_normed=not c.recycles_normed))
        assert first < 1e-4 and second > 0.05
    if not family.fuse:
        other = PRE if family.states == (NORMED,) else NORMED
        assert differs(family, target, tmp_path, lambda c: replace(c, states=(other,)))[0] > 0.05


def test_the_decoders_states_are_transformers(target):
    decoder = Decoder.load(target.checkpoint, AS_LOADED, 64, torch.float32)
    states = dict.fromkeys([*range(LAYERS + 1), NORMED])
    logits = decoder.forward(TEXT, decoder.new_cache(), states=states)
    for i, state in states.items():
        torch.testing.assert_close(state, target.states[i], atol=1e-4, rtol=1e-4)
    assert torch.equal(logits, decoder.forward(TEXT, decoder.new_cache()))


def test_the_decoders_states_are_the_same_bits_for_every_width(target):
    decoder = Decoder.load(target.checkpoint, AS_LOADED, 64)
    wanted = [0, 3, LAYERS, NORMED]
    whole = dict.fromkeys(wanted)
    decoder.forward(TEXT, decoder.new_cache(), last=1, states=whole)
    for width in (1, 3, 7):
        cache, parts = decoder.new_cache(), []
        for i in range(0, len(TEXT), width):
            parts.append(dict.fromkeys(wanted))
            decoder.forward(TEXT[i : i + width], cache, states=parts[-1])
        for i in wanted:
            assert torch.equal(torch.cat([part[i] for part in parts]), whole[i])
