"""A head is used whole and understood whole, or refused in one line that names the field or the tensor."""

import json
import pickle

import pytest
import torch
from safetensors.torch import save_file

from acctax import ops
from acctax.config import AS_LOADED, HubTarget, Recipe, Rule
from acctax.draft.heads.checkpoint import open_head
from acctax.draft.heads.head import Head
from acctax.errors import ConfigError
from acctax.models.checkpoint import open_checkpoint
from acctax.quant import recipes
from tests.draft.heads import published
from tests.draft.heads.published import DRAFT_VOCAB, HEADS, HIDDEN, INTERMEDIATE, LAYERS, TARGET, VOCAB
from tests.tiny import save_model

EAGLE3, SPECULATORS, MTP = published.eagle3, published.eagle3_speculators, published.mtp_speculators
MATRIX = torch.ones(4, 4)


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    ops.load()
    folder = tmp_path_factory.mktemp("target")
    save_model(TARGET, folder)
    return open_checkpoint(HubTarget("hf", str(folder)))


def kind_of(make):
    return "eagle" if "eagle" in make.__name__ else "mtp"


def load(make, target, folder, change, dtype=torch.bfloat16):
    head = make()
    change(head)
    return Head.load(open_head(head.save(folder), kind_of(make), target), AS_LOADED, 64, dtype)


TRANSFORMER = "transformer_layer_config"


def said(**values):
    """Fields of config.json that say something else; None: nothing."""
    return lambda head: head.config.update(values)


def block(**values):
    return lambda head: head.config[TRANSFORMER].update(values)


def holding(name, tensor=MATRIX):
    return lambda head: head.tensors.update({name: tensor})


def lacking(*names):
    return lambda head: [head.tensors.pop(name) for name in names]


def unfilled(name):
    return lambda head: head.tensors[name].view(-1)[3:4].fill_(torch.nan)


def changed(name, change):
    return lambda head: head.tensors.update({name: change(head.tensors[name])})


def both(*changes):
    return lambda head: [change(head) for change in changes]


EXPERT, LATENT = "mtp.layers.0.mlp.experts.0.up_proj.weight", f"model.layers.{LAYERS}.self_attn.q_a_proj.weight"
IDS = "eagle_aux_hidden_state_layer_ids"
REFUSED = {
    # what engines take differently is said, or nothing is loaded
    "residual unsaid": (SPECULATORS, said(norm_before_residual=None), "norm_before_residual=None: must be true or fal"),
    "layers unsaid": (SPECULATORS, said(**{IDS: None}), f"{IDS}=None: must be layers of the target, ascending, 0 to 8"),
    "layers beyond": (SPECULATORS, said(**{IDS: [1, 4, 9]}), r"layer_ids=\[1, 4, 9\]"),
    "layers descending": (SPECULATORS, said(**{IDS: [4, 1, 8]}), r"layer_ids=\[4, 1, 8\]"),
    "another number of layers": (SPECULATORS, said(**{IDS: [1, 4]}), r"fc.weight=\(64, 192\): must .* \(64, 128\)"),
    "state unsaid": (MTP, said(verifier_hidden_state=None), "verifier_hidden_state=None: .* pre_norm or post_norm"),
    "state unknown": (published.mimo, said(verifier_hidden_state="last"), "verifier_hidden_state=last"),
    "a flag of no kind": (SPECULATORS, said(norm_output="yes"), "norm_output=yes: must be true or false"),
    "two norms for one place": (SPECULATORS, said(norm_before_fc=True, fc_norm=True), "fc_norm=True: must be false"),
    "a norm missing": (SPECULATORS, said(norm_before_fc=True), "tensor=input_norm.weight: is missing"),
    "a norm more": (SPECULATORS, holding("input_norm.weight", torch.ones(192)), "tensor=input_norm.weight: is in the"),
    "no aux states": (EAGLE3, said(eagle_config={"use_aux_hidden_state": False}), "use_aux_hidden_state=False: must"),
    "an unknown option": (EAGLE3, said(eagle_config={"depth": 2}), "eagle_config.depth=2"),
    # it is this target's
    "another hidden size": (EAGLE3, said(target_hidden_size=128), "target_hidden_size=128: must be the target's, 64"),
    "a narrower MTP": (MTP, block(hidden_size=32), "hidden_size=32: must be the target"),
    "a narrower EAGLE": (SPECULATORS, both(said(target_hidden_size=64), block(hidden_size=32)),
                         "hidden_size=32: must be the target's, 64, where the head has no embedding"),
    "another vocabulary": (EAGLE3, said(vocab_size=98), "vocab_size=98: must be the target's, 97"),
    "another depth": (published.deepseek, said(num_hidden_layers=7), "num_hidden_layers=7"),
    # the draft vocabulary
    "draft size unsaid": (EAGLE3, said(draft_vocab_size=None), "draft_vocab_size=None"),
    "draft size of another": (EAGLE3, said(draft_vocab_size=41), r"must have shape \(41"),
    "no map": (SPECULATORS, lacking("d2t", "t2d"), "draft_vocab_size=40: must be the vocabulary's 97 without"),
    "no map beside marks": (SPECULATORS, lacking("d2t"), "tensor=d2t: is missing beside t2d"),
    "ids beyond": (EAGLE3, changed("d2t", lambda t: t + 60), "d2t=.*: must lead to ids 0 to 96"),
    "ids twice": (EAGLE3, changed("d2t", lambda t: -torch.arange(40)), "d2t=1 ids: must lead to 40 different ids"),
    "other marks": (EAGLE3, changed("t2d", lambda t: ~t), "t2d=57 ids: must mark the ids"),
    "a map of fractions": (EAGLE3, changed("d2t", lambda t: t.float()), "d2t=torch.float32"),
    # fields that shapes do not betray
    "model type unsaid": (EAGLE3, said(model_type=None), "model_type=None: must be given"),
    "heads unsaid": (SPECULATORS, block(num_attention_heads=None), "num_attention_heads=None"),
    "eps unsaid": (MTP, block(rms_norm_eps=None), "rms_norm_eps=None"),
    "positions unsaid": (EAGLE3, said(max_position_embeddings=None), "max_position_embeddings=None"),
    "no block": (MTP, said(**{TRANSFORMER: None}), "transformer_layer_config=None: must be given"),
    "layers uncounted": (published.mimo, said(num_nextn_predict_layers=None), "num_nextn_predict_layers=None"),
    "two layers": (published.deepseek, said(num_nextn_predict_layers=2), "num_nextn_predict_layers=2: must be 1"),
    "two blocks": (EAGLE3, said(num_hidden_layers=2), "num_hidden_layers=2: must be 1"),
    "an ill type": (EAGLE3, said(num_attention_heads="four"), "config.json: must be a configuration of llama"),
    # blocks that cannot run
    "an unknown model": (EAGLE3, said(model_type="nobody"), "model_type=nobody: must be one that"),
    "another family": (EAGLE3, said(model_type="gpt2"), "model_type=gpt2: must be one of llama"),
    "windows of Llama": (EAGLE3, said(sliding_window=512), "sliding_window=512: must be null"),
    "another rotary": (EAGLE3, said(rope_scaling={"rope_type": "dynamic", "factor": 2.0}), "rope_type=dynamic"),
    "experts": (published.qwen, holding(EXPERT), "experts.0.up_proj.weight: a mixture of experts cannot run here"),
    "latent attention": (published.deepseek, holding(LATENT), "q_a_proj.weight: latent attention cannot run here"),
    "own embeddings": (published.qwen, said(mtp_use_dedicated_embeddings=True), "must be false"),
    # every tensor is used, every parameter is filled
    "a tensor more": (EAGLE3, holding("extra"), "tensor=extra: is in the file and nothing of EAGLE-3 uses it"),
    "a tensor more beside a model": (published.qwen, holding("extra"), "tensor=extra: is in the file"),
    "a second layer": (published.qwen, holding("mtp.layers.1.mlp.up_proj.weight"), "tensor=mtp.layers.1"),
    "a norm before attention": (published.eagle1, holding("layers.0.input_layernorm.weight"), "layernorm.weight: is"),
    "no lm_head": (EAGLE3, lacking("lm_head.weight"), "tensor=lm_head.weight: is missing"),
    "no bias": (published.eagle1, lacking("fc.bias"), "tensor=fc.bias: is missing"),
    "no norm": (EAGLE3, lacking("midlayer.hidden_norm.weight"), "midlayer.hidden_norm.weight: is missing"),
    "no gate": (published.qwen, changed("mtp.layers.0.self_attn.q_proj.weight", lambda t: t[:64]), r"\(128, 64\)"),
    "a norm unfilled": (MTP, unfilled("mtp_layers.0.final_layernorm.weight"), "final_layernorm.weight: must be filled"),
    "a matrix unfilled": (EAGLE3, unfilled("fc.weight"), "fc.weight: must be filled"),
    "an lm_head unfilled": (EAGLE3, unfilled("lm_head.weight"), "lm_head.weight: must be filled"),
    "an embedding unfilled": (published.eagle1, unfilled("embed_tokens.weight"), "embed_tokens.weight: must be filled"),
    # it is a head, and one
    "no head": (published.mimo, lambda head: head.tensors.clear(), "tensors=0: must be a head of a known layout"),
    "two heads": (published.qwen, holding("model.mtp_layers.0.x"), "must be of one layout"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_unclear_is_refused(case, target, tmp_path):
    make, change, message = REFUSED[case]
    with pytest.raises(ConfigError, match=message) as error:
        load(make, target, tmp_path, change)
    assert "\n" not in str(error.value) and str(tmp_path) in str(error.value)


@pytest.mark.parametrize("make, kind", [(MTP, "eagle"), (EAGLE3, "mtp")])
def test_a_head_of_the_other_kind(make, kind, target, tmp_path):
    with pytest.raises(ConfigError, match=f"is one of draft_source={kind_of(make)}, not {kind}"):
        open_head(make().save(tmp_path), kind, target)


def test_files_that_cannot_be_read(target, tmp_path):
    EAGLE3().save(tmp_path)
    file = tmp_path / "model.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:1000])
    with pytest.raises(ConfigError, match="must be a complete safetensors file"):
        open_head(tmp_path, "eagle", target)
    file.write_bytes(whole)
    for text in ("{", "[]"):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(ConfigError, match="file=config.json: must"):
            open_head(tmp_path, "eagle", target)


def test_nothing_is_unpickled(target, tmp_path):
    class Bomb:
        def __reduce__(self):
            return exec, ("raise SystemExit('unpickled')",)

    (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb()))
    load(EAGLE3, target, tmp_path, lambda head: None)


def test_a_head_in_several_files(target, tmp_path):
    head = EAGLE3()
    whole = Head.load(open_head(head.save(tmp_path / "one"), "eagle", target), AS_LOADED, 64)
    (tmp_path / "two").mkdir()
    (tmp_path / "two/config.json").write_text(json.dumps(head.config))
    names = sorted(head.tensors)
    for i in range(2):
        save_file({name: head.tensors[name] for name in names[i::2]}, tmp_path / f"two/model-0000{i}.safetensors")
    parts = Head.load(open_head(tmp_path / "two", "eagle", target), AS_LOADED, 64)
    state = torch.ones(3, HIDDEN, dtype=torch.bfloat16)
    got, wanted = (h.forward([3, 4, 5], state, h.new_cache())[0] for h in (parts, whole))
    assert torch.equal(got, wanted)


def test_a_head_of_another_width_brings_its_own_embedding_and_lm_head(target, tmp_path):
    r, head = published.Random(), EAGLE3()
    sizes = {HIDDEN: 32, 2 * HIDDEN: 64, 3 * HIDDEN: 3 * HIDDEN, VOCAB: VOCAB}
    narrow = {}
    for name, tensor in head.tensors.items():
        shape = [sizes.get(n, n) for n in tensor.shape]
        if name.endswith("q_proj.weight"):
            shape[0] = 64
        elif name.endswith("o_proj.weight"):
            shape[1] = 64
        elif name == "fc.weight":
            shape[1] = 3 * HIDDEN
        narrow[name] = tensor if name in ("d2t", "t2d") else r.matrix(*shape) if len(shape) == 2 else r.norm(*shape)
    config = head.config | {"hidden_size": 32, "target_hidden_size": HIDDEN}
    narrow["embed_tokens.weight"] = r.matrix(VOCAB, 32)
    folder = published.Published(config, narrow).save(tmp_path)
    loaded = Head.load(open_head(folder, "eagle", target), AS_LOADED, 64)
    state = loaded.state_of(torch.ones(2, 3 * HIDDEN, dtype=torch.bfloat16))
    assert state.shape == (2, 32)
    logits, recycled = loaded.forward([3, 4], state, loaded.new_cache())
    assert logits.shape == (1, DRAFT_VOCAB) and recycled.shape == (1, 32)


def test_a_reduced_vocabulary_gathers_the_targets_rows(target, tmp_path):
    head = load(SPECULATORS, target, tmp_path, lambda head: None, torch.float32)
    rows = target.tensors["lm_head.weight"][head.ids]
    assert torch.equal(head.weights.lm_head(torch.eye(HIDDEN)).T, rows)
    assert torch.equal(head.weights.embedding, target.tensors["model.embed_tokens.weight"])


@pytest.mark.parametrize("make", [EAGLE3, published.eagle1, published.deepseek, published.qwen, published.mimo, MTP])
@pytest.mark.parametrize("recipe", ["int8", "nvfp4", "nvfp4_qkv", "nvfp4_o", "nvfp4_mlp", "nvfp4_lm_head", "int8_all"])
def test_every_recipe_of_a_decoder_fits_a_head(make, recipe, target, tmp_path):
    """The same rules, whatever the file calls its modules; the rest stays as it was."""
    checkpoint = open_head(make().save(tmp_path), kind_of(make), target)
    plain = Head.load(checkpoint, AS_LOADED, 64).weights
    packed = Head.load(checkpoint, recipes.load(recipe), 64).weights
    format, _, part = recipe.partition("_")
    body = {"input_proj", "qkv", "o", "gate_up", "down"}
    changed = {"": body, "all": body | {"lm_head"}, "mlp": {"gate_up", "down"}}.get(part, {part})

    def formats(weights):
        layer = weights.layer
        linears = dict(input_proj=weights.input_proj, qkv=layer.qkv, o=layer.o, gate_up=layer.gate_up, down=layer.down,
                       lm_head=weights.lm_head)  # fmt: skip
        return {name: linear.weights[0].format for name, linear in linears.items()}

    assert set(formats(plain).values()) == {"bf16"}
    assert {name for name, its in formats(packed).items() if its == format} == changed
    if plain.gate is not None:
        assert packed.gate.weights[0].format == packed.layer.qkv.weights[0].format


def test_a_rule_that_fits_no_module_of_a_head(target, tmp_path):
    checkpoint = open_head(EAGLE3().save(tmp_path), "eagle", target)
    with pytest.raises(ConfigError, match="must match a module .*model.layers.*.input_proj"):
        Head.load(checkpoint, Recipe("odd", (Rule("*.gate", "int8"),)), 64)


def test_two_arms_share_what_is_packed_alike(target, tmp_path):
    checkpoints = [open_head(MTP().save(tmp_path), "mtp", target), None]
    checkpoints[1] = open_head(tmp_path, "mtp", target)
    a, b = (Head.load(checkpoint, AS_LOADED, 64) for checkpoint in checkpoints)
    assert a.weights is b.weights
    published.mtp_speculators("pre_norm").save(tmp_path)  # trained again
    assert Head.load(open_head(tmp_path, "mtp", target), AS_LOADED, 64).weights is not a.weights


ATTENTION = 64 * 64 + 64 * 64  # q and o, out × in where both read 64
MLP = 3 * INTERMEDIATE * HIDDEN


@pytest.mark.parametrize(
    "make, weights, norms",
    [
        # fc 3H, q and k and v of 2H, o, MLP, own rows
        (EAGLE3, 64 * 192 + (64 + 32 + 32) * 128 + 64 * 64 + MLP + DRAFT_VOCAB * 64, 4 * 64),
        # the same with the target's rows gathered: they are read all the same
        (SPECULATORS, 64 * 192 + (64 + 32 + 32) * 128 + 64 * 64 + MLP + DRAFT_VOCAB * 64, 4 * 64),
        # a bias on fc, in float32: two units of bf16; the target's whole lm_head
        (published.eagle1, 64 * 128 + 2 * 64 + ATTENTION + 2 * 32 * 64 + MLP + VOCAB * 64, 64),
        (published.deepseek, 64 * 128 + ATTENTION + 2 * 32 * 64 + MLP + VOCAB * 64, 5 * 64),
        # a gate as large as q, and norms of q and k
        (published.qwen, 64 * 128 + ATTENTION + 64 * 64 + 2 * 32 * 64 + MLP + VOCAB * 64, 5 * 64 + 2 * 16),
        (published.mimo, 64 * 128 + ATTENTION + 2 * 32 * 64 + 2 * (64 + 32 + 32) + MLP + VOCAB * 64, 5 * 64),
        (MTP, 64 * 128 + ATTENTION + 2 * 32 * 64 + MLP + DRAFT_VOCAB * 64, 5 * 64),
    ],
)  # fmt: skip
def test_the_ledger_counts_every_stored_byte_once(make, weights, norms, target, tmp_path):
    head = load(make, target, tmp_path, lambda head: None)
    embedding, row = 64 * 2, 2 * 2 * 16 * 2  # a row of the embedding; a key and a value of two heads
    assert head.bytes_per_pass(context=20) == 2 * weights + 4 * norms + embedding + 21 * row


def test_a_quantized_head_is_counted_as_it_is_stored(target, tmp_path):
    checkpoint = open_head(MTP().save(tmp_path), "mtp", target)
    plain, rows, all_of_it = (Head.load(checkpoint, recipes.load(r), 64).bytes_per_pass(20)
                              for r in ("bf16", "nvfp4_lm_head", "nvfp4_all"))  # fmt: skip
    assert plain - rows == DRAFT_VOCAB * 64 * (2 - 4.5 / 8) - 4  # codes, block scales and one global scale
    modules = [64 * 128, 64 * 64, 32 * 64, 32 * 64, 64 * 64, 96 * 64, 96 * 64, 64 * 96, DRAFT_VOCAB * 64]
    assert plain - all_of_it == sum(modules) * (2 - 4.5 / 8) - 4 * len(modules)
    assert HEADS * 16 == 64
