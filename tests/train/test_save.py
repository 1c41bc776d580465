"""A saved head has the names and shapes of speculators' layout, and drafts from there what it drafts here."""

import json

import pytest
import torch
from safetensors.torch import load_file

from acctax.config import AS_LOADED
from acctax.draft.heads.checkpoint import open_head
from acctax.draft.heads.head import Head
from acctax.train.chains import Chains, pack
from acctax.train.heads import build_head
from acctax.train.save import save_head
from acctax.train.vocabulary import draft_vocabulary

STATES, DRAFTS, DRAFT_VOCAB = (0, 1, 2), 3, 40
BLOCK = {
    "self_attn.q_proj.weight": (64, 64), "self_attn.k_proj.weight": (32, 64), "self_attn.v_proj.weight": (32, 64),
    "self_attn.o_proj.weight": (64, 64), "mlp.gate_proj.weight": (96, 64), "mlp.up_proj.weight": (96, 64),
    "mlp.down_proj.weight": (64, 96), "input_layernorm.weight": (64,), "post_attention_layernorm.weight": (64,),
}  # fmt: skip
BLOCK |= {f"self_attn.{name}_norm.weight": (16,) for name in ("q", "k")}
VOCABULARY = {"d2t": (DRAFT_VOCAB,), "t2d": (97,)}
WIDE = {f"self_attn.{name}_proj.weight": (rows, 128) for name, rows in (("q", 64), ("k", 32), ("v", 32))}
EXPECTED = {
    "mtp": {
        **{f"mtp_layers.0.{name}": shape for name, shape in BLOCK.items()},
        **{f"mtp_layers.0.{name}_layernorm.weight": (64,) for name in ("token", "hidden", "final")},
        "mtp_layers.0.input_proj.weight": (64, 128),
    },
    "eagle": {
        **{f"layers.0.{name}": shape for name, shape in (BLOCK | WIDE).items()},
        "layers.0.hidden_norm.weight": (64,), "norm.weight": (64,), "fc.weight": (64, 192),
        **{f"fc_norm.{i}.weight": (64,) for i in range(3)},
    },
}  # fmt: skip


@pytest.fixture(params=["mtp", "eagle"])
def saved(request, tiny, tmp_path):
    """kind, the head with weights that bf16 holds exactly, its vocabulary, its folder"""
    head = build_head(request.param, tiny, STATES, seed=0)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.copy_((parameter + 0.1 * torch.randn(parameter.shape)).bfloat16())
    vocabulary = draft_vocabulary([range(50, 90)], 97, DRAFT_VOCAB, always=[2])
    save_head(tmp_path, head, vocabulary, tiny, "some/target", DRAFTS)
    return request.param, head, vocabulary, tmp_path


def test_names_and_shapes(saved):
    kind, _, vocabulary, folder = saved
    tensors = load_file(folder / "model.safetensors")
    assert {name: tuple(tensor.shape) for name, tensor in tensors.items()} == EXPECTED[kind] | VOCABULARY
    assert {t.dtype for name, t in tensors.items() if name not in VOCABULARY} == {torch.bfloat16}
    assert torch.equal(torch.arange(DRAFT_VOCAB) + tensors["d2t"], vocabulary.ids)
    assert torch.equal(tensors["t2d"].nonzero()[:, 0], vocabulary.ids)


def test_config(saved):
    kind, _, _, folder = saved
    values = json.loads((folder / "config.json").read_text())
    assert values["speculators_model_type"] == {"mtp": "mtp", "eagle": "eagle3"}[kind]
    assert values["speculators_config"]["proposal_methods"][0]["speculative_tokens"] == DRAFTS
    assert values["speculators_config"]["verifier"] == {
        "name_or_path": "some/target", "architectures": ["LlamaForCausalLM"]}
    inner = values["transformer_layer_config"]
    assert inner["model_type"] == "qwen3"
    assert inner["rope_parameters"]["rope_theta"] == 10000
    if kind == "eagle":
        assert values["norm_output"] and values["fc_norm"] and not values["norm_before_residual"]
        assert values["eagle_aux_hidden_state_layer_ids"] == [0, 1, 2] and inner["num_hidden_layers"] == 1
    else:
        assert values["num_nextn_predict_layers"] == 1 and values["verifier_hidden_state"] == "post_norm"


@torch.no_grad()
def test_it_drafts_alike_when_loaded(saved, tiny):
    kind, head, vocabulary, folder = saved
    tokens = torch.randint(3, 97, (12,), generator=torch.Generator().manual_seed(0)).tolist()
    features = torch.randn(12, 4 * 64, generator=torch.Generator().manual_seed(1))
    batch = pack([(tokens, features, [0.0] * 12, [0] * 12, 2)])
    embedding = tiny.tensors["model.embed_tokens.weight"]
    chains, rows = Chains(head, embedding, batch, DRAFTS), batch.reaching(batch.starts, DRAFTS - 1)
    mine = [chains.step(rows) @ embedding[vocabulary.ids].T for _ in range(DRAFTS)]

    loaded = Head.load(open_head(folder, kind, tiny), AS_LOADED, 32, torch.float32)
    assert torch.equal(loaded.ids, vocabulary.ids)
    columns = slice(192, 256) if kind == "mtp" else slice(0, 192)
    for i, row in enumerate(rows.tolist()):
        cache = loaded.new_cache()
        state = loaded.state_of(features[: row + 1, columns].contiguous())
        fed = tokens[1 : row + 2]
        for k in range(DRAFTS):
            logits, state = loaded.forward(fed, state, cache)
            torch.testing.assert_close(logits[0], mine[k][i], atol=1e-4, rtol=1e-4)
            fed = [tokens[row + 2 + k]] if row + 2 + k < 12 else []
