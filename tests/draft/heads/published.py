"""Tiny random heads in the layouts that are published, one a family, for a tiny target."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import LlamaConfig

from tests.tiny import SIZE, VOCAB

LAYERS, HIDDEN, INTERMEDIATE, HEADS, KV_HEADS, DIM, DRAFT_VOCAB = 8, 64, 96, 4, 2, 16, 40
TARGET = LlamaConfig(**(SIZE | {"num_hidden_layers": LAYERS}), tie_word_embeddings=False)
BLOCK = dict(
    model_type="llama", hidden_size=HIDDEN, intermediate_size=INTERMEDIATE, num_attention_heads=HEADS,
    num_key_value_heads=KV_HEADS, head_dim=DIM, vocab_size=VOCAB, max_position_embeddings=128, rms_norm_eps=1e-5,
    rope_theta=10000.0, hidden_act="silu", num_hidden_layers=1,
)  # fmt: skip


@dataclass
class Published:
    config: dict
    tensors: dict[str, Tensor] = field(default_factory=dict)

    def save(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(self.config))
        save_file({name: tensor.contiguous() for name, tensor in self.tensors.items()}, folder / "model.safetensors")
        return folder


class Random:
    def __init__(self, seed: int = 0):
        self.generator = torch.Generator().manual_seed(seed)

    def matrix(self, rows: int, columns: int) -> Tensor:
        return torch.randn(rows, columns, generator=self.generator) * 1.5 * columns**-0.5

    def norm(self, size: int = HIDDEN) -> Tensor:
        return 1 + 0.3 * torch.randn(size, generator=self.generator)

    def bias(self, size: int) -> Tensor:
        return 0.3 * torch.randn(size, generator=self.generator)

    def block(self, prefix: str, reads: int = HIDDEN, q_rows: int = HEADS * DIM, qk_norm: bool = False) -> dict:
        """An ordinary block without its norm before attention."""
        q, kv = HEADS * DIM, KV_HEADS * DIM
        tensors = {
            "self_attn.q_proj.weight": self.matrix(q_rows, reads),
            "self_attn.k_proj.weight": self.matrix(kv, reads),
            "self_attn.v_proj.weight": self.matrix(kv, reads),
            "self_attn.o_proj.weight": self.matrix(HIDDEN, q),
            "mlp.gate_proj.weight": self.matrix(INTERMEDIATE, HIDDEN),
            "mlp.up_proj.weight": self.matrix(INTERMEDIATE, HIDDEN),
            "mlp.down_proj.weight": self.matrix(HIDDEN, INTERMEDIATE),
            "post_attention_layernorm.weight": self.norm(),
        }
        if qk_norm:
            tensors |= {f"self_attn.{name}.weight": self.norm(DIM) for name in ("q_norm", "k_norm")}
        return {prefix + name: tensor for name, tensor in tensors.items()}

    def vocabulary(self) -> dict[str, Tensor]:
        ids = torch.randperm(VOCAB, generator=self.generator)[:DRAFT_VOCAB].sort().values
        marked = torch.zeros(VOCAB, dtype=torch.bool)
        marked[ids] = True
        return {"d2t": ids - torch.arange(DRAFT_VOCAB), "t2d": marked}


def eagle3() -> Published:
    """SafeAILab's: own lm_head over a reduced vocabulary."""
    r = Random()
    return Published(
        BLOCK | {"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": DRAFT_VOCAB},
        r.block("midlayer.", reads=2 * HIDDEN)
        | {f"midlayer.{name}.weight": r.norm() for name in ("hidden_norm", "input_layernorm")}
        | {"fc.weight": r.matrix(HIDDEN, 3 * HIDDEN), "norm.weight": r.norm()}
        | {"lm_head.weight": r.matrix(DRAFT_VOCAB, HIDDEN)}
        | r.vocabulary(),
    )


def eagle3_speculators(states=(1, 4, 8), block: str = "llama", **flags: bool) -> Published:
    """speculators': the target's lm_head, its rows gathered; flags of the library's own."""
    r = Random()
    flags = {"norm_before_residual": False, "norm_before_fc": False, "fc_norm": False, "norm_output": False} | flags
    tensors = (
        r.block("layers.0.", reads=2 * HIDDEN, qk_norm=block == "qwen3")
        | {f"layers.0.{name}.weight": r.norm() for name in ("hidden_norm", "input_layernorm")}
        | {"fc.weight": r.matrix(HIDDEN, len(states) * HIDDEN), "norm.weight": r.norm()}
        | r.vocabulary()
    )
    if flags["norm_before_fc"]:
        tensors["input_norm.weight"] = r.norm(len(states) * HIDDEN)
    if flags["fc_norm"]:
        tensors |= {f"fc_norm.{i}.weight": r.norm() for i in range(len(states))}
    config = {
        "speculators_model_type": "eagle3", "draft_vocab_size": DRAFT_VOCAB, "target_hidden_size": None,
        "eagle_aux_hidden_state_layer_ids": list(states), "transformer_layer_config": BLOCK | {"model_type": block},
    }  # fmt: skip
    return Published(config | flags, tensors)


def eagle1() -> Published:
    """SafeAILab's first: its own copy of the embedding, a bias, no norm before attention and none at the end."""
    r = Random()
    return Published(
        BLOCK | {"architectures": ["LlamaForCausalLM"], "bias": True},
        {name: 0.6 * tensor for name, tensor in r.block("layers.0.").items()}  # or a chain's states grow and grow
        | {"fc.weight": r.matrix(HIDDEN, 2 * HIDDEN) / 2, "fc.bias": r.bias(HIDDEN)}
        | {"embed_tokens.weight": r.matrix(VOCAB, HIDDEN)},
    )


def deepseek() -> Published:
    """A layer beyond the model's last, in a file that holds some of the model too."""
    r, layer = Random(), f"model.layers.{LAYERS}."
    return Published(
        BLOCK | {"num_hidden_layers": LAYERS, "num_nextn_predict_layers": 1},
        r.block(layer)
        | {f"{layer}{name}.weight": r.norm() for name in ("enorm", "hnorm", "input_layernorm", "shared_head.norm")}
        | {f"{layer}eh_proj.weight": r.matrix(HIDDEN, 2 * HIDDEN)}
        | {f"{layer}embed_tokens.weight": r.matrix(VOCAB, HIDDEN)}
        | {f"{layer}shared_head.head.weight": r.matrix(VOCAB, HIDDEN)}
        | {"model.layers.0.input_layernorm.weight": r.norm(), "lm_head.weight": r.matrix(VOCAB, HIDDEN)},
    )


def qwen(model_type: str = "qwen3_next") -> Published:
    """Norms stored less 1, a gate in q_proj, a quarter of the dims rotated; Qwen3.5 nests what is text's."""
    r = Random()
    values = BLOCK | {"model_type": model_type, "num_hidden_layers": LAYERS, "layer_types": ["linear_attention"] * 7
                      + ["full_attention"], "rope_theta": 10000.0, "partial_rotary_factor": 0.25}  # fmt: skip
    if model_type == "qwen3_5_text":
        rope = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25}
        del values["rope_theta"], values["partial_rotary_factor"]
        values |= {"rope_parameters": rope, "mtp_num_hidden_layers": 1}
        values = {"model_type": "qwen3_5", "text_config": values}
    tensors = (
        r.block("mtp.layers.0.", q_rows=2 * HEADS * DIM, qk_norm=True)
        | {f"mtp.{name}.weight": r.norm() for name in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm")}
        | {"mtp.layers.0.input_layernorm.weight": r.norm(), "mtp.fc.weight": r.matrix(HIDDEN, 2 * HIDDEN)}
    )
    return Published(values, {name: t - 1 if "norm" in name else t for name, t in tensors.items()})


def mimo(state: str = "post_norm") -> Published:
    """A Qwen2 block, with biases on q, k and v."""
    r, layer = Random(), "model.mtp_layers.0."
    names = ("token_layernorm", "hidden_layernorm", "input_layernorm", "final_layernorm")
    sizes = {"q_proj": HEADS * DIM, "k_proj": KV_HEADS * DIM, "v_proj": KV_HEADS * DIM}
    return Published(
        BLOCK | {"model_type": "mimo", "num_hidden_layers": LAYERS, "num_nextn_predict_layers": 1,
                 "verifier_hidden_state": state},
        r.block(layer)
        | {f"{layer}{name}.weight": r.norm() for name in names}
        | {f"{layer}self_attn.{name}.bias": r.bias(size) for name, size in sizes.items()}
        | {f"{layer}input_proj.weight": r.matrix(HIDDEN, 2 * HIDDEN)},
    )  # fmt: skip


def mtp_speculators(state: str = "post_norm") -> Published:
    """A reduced vocabulary and the target's lm_head, as this project's trainer writes it."""
    r, layer = Random(), "mtp_layers.0."
    names = ("token_layernorm", "hidden_layernorm", "input_layernorm", "final_layernorm")
    return Published(
        {"speculators_model_type": "mtp", "draft_vocab_size": DRAFT_VOCAB, "transformer_layer_config": dict(BLOCK),
         "verifier_hidden_state": state},
        r.block(layer)
        | {f"{layer}{name}.weight": r.norm() for name in names}
        | {f"{layer}input_proj.weight": r.matrix(HIDDEN, 2 * HIDDEN)}
        | r.vocabulary(),
    )  # fmt: skip
