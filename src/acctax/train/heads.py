"""The two heads as modules: one Llama block over the target's hidden states, its token embedding and its lm_head.

Row t of a text: the head is given the target's state after token x_t and the embedding of x_(t+1), and drafts x_(t+2):

    tokens    x0   x1   x2   x3   x4              the state h_t of the target knows x0 … xt and foretells x(t+1)
    row 0    (h0,  x1)  → x2                      first draft: the target's own state
             (s0,       x2)  → x3                 second draft: the head's state after the first, at position 1
    row 1         (h1,  x2)  → x3

A drafted row's state goes back in normed. Parameters are called as in the layouts of the library speculators.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from acctax.models.checkpoint import Checkpoint
from acctax.models.config import DecoderConfig
from acctax.train.functional import RMSNorm, rotate

FLATTER = 0.3  # of the target's final norm: an untrained head must not be sure of the wrong token
SPREAD = 0.02  # standard deviation of what is not taken from the target


@dataclass(frozen=True)
class BlockConfig:
    """A block in the shape of the target's, with norms on each head's q and k whether the target has them or not.

    Every layout for MTP has them. EAGLE-3 for SmolLM2-135M, trained alike, came to τ(3) = 1.72 on greedy MT-bench text
    without them and to 2.36 with them.
    """

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    eps: float
    activation: str
    rope_theta: float
    context: int
    vocab: int


def block_config(target: DecoderConfig) -> BlockConfig:
    """theta: from the slowest angle of the target's last layer; of a scaled rotary, a plain one that ends alike."""
    slowest, dim = target.layers[-1].rotary.inv_freq[-1], target.head_dim
    theta = float(f"{slowest ** (-dim / (dim - 2)):.6g}")
    return BlockConfig(
        target.hidden, target.heads, target.kv_heads, target.head_dim, target.intermediate, target.eps,
        target.activation, theta, target.context, target.vocab,
    )  # fmt: skip


class Reading(NamedTuple):
    """What the block's attention takes from its rows: q [n, heads, head_dim], k and v [n, kv_heads, head_dim]."""

    q: Tensor
    k: Tensor
    v: Tensor
    residual: Tensor  # [n, hidden]


class Attention(nn.Module):
    def __init__(self, config: BlockConfig, reads: int):
        super().__init__()
        self.config = config
        q, kv = config.heads * config.head_dim, config.kv_heads * config.head_dim
        self.q_proj = nn.Linear(reads, q, bias=False)
        self.k_proj = nn.Linear(reads, kv, bias=False)
        self.v_proj = nn.Linear(reads, kv, bias=False)
        self.o_proj = nn.Linear(q, config.hidden, bias=False)
        self.q_norm, self.k_norm = (RMSNorm(config.head_dim, config.eps) for _ in range(2))

    def read(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x [n, reads]; cos, sin [n, head_dim / 2]"""
        dim = self.config.head_dim
        q, k, v = (proj(x).view(len(x), -1, dim) for proj in (self.q_proj, self.k_proj, self.v_proj))
        return rotate(self.q_norm(q), cos, sin), rotate(self.k_norm(k), cos, sin), v


class Mlp(nn.Module):
    def __init__(self, config: BlockConfig):
        super().__init__()
        self.gelu = config.activation != "silu"
        self.gate_proj = nn.Linear(config.hidden, config.intermediate, bias=False)
        self.up_proj = nn.Linear(config.hidden, config.intermediate, bias=False)
        self.down_proj = nn.Linear(config.intermediate, config.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate = self.gate_proj(x)
        gate = F.gelu(gate, approximate="tanh") if self.gelu else F.silu(gate)
        return self.down_proj(gate * self.up_proj(x))


class Block(nn.Module):
    def __init__(self, config: BlockConfig, reads: int):
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden, config.eps)
        self.self_attn = Attention(config, reads)
        self.post_attention_layernorm = RMSNorm(config.hidden, config.eps)
        self.mlp = Mlp(config)

    def finish(self, residual: Tensor, attended: Tensor) -> Tensor:
        """attended [n, heads · head_dim] → the block's output [n, hidden]"""
        x = residual + self.self_attn.o_proj(attended)
        return x + self.mlp(self.post_attention_layernorm(x))


class Head(nn.Module, ABC):
    config: BlockConfig

    @abstractmethod
    def enter(self, features: Tensor) -> Tensor:
        """The target's states, a row of the data store [n, width] → what the first draft takes as state [n, hidden]."""

    @abstractmethod
    def read(self, embedded: Tensor, state: Tensor, cos: Tensor, sin: Tensor) -> Reading:
        """embedded, state [n, hidden]"""

    @abstractmethod
    def finish(self, residual: Tensor, attended: Tensor) -> Tensor:
        """→ the state that lm_head reads and that goes back in [n, hidden]"""


class MtpHead(Head):
    """On the target's last state, after its final norm; the block is as wide as the target's (DeepSeek-V3)."""

    def __init__(self, config: BlockConfig):
        super().__init__()
        self.config = config
        layer = Block(config, config.hidden)
        layer.token_layernorm, layer.hidden_layernorm, layer.final_layernorm = (
            RMSNorm(config.hidden, config.eps) for _ in range(3))
        layer.input_proj = nn.Linear(2 * config.hidden, config.hidden, bias=False)
        self.mtp_layers = nn.ModuleList([layer])

    def enter(self, features: Tensor) -> Tensor:
        return features[:, -self.config.hidden :]

    def read(self, embedded: Tensor, state: Tensor, cos: Tensor, sin: Tensor) -> Reading:
        layer = self.mtp_layers[0]
        joined = torch.cat((layer.token_layernorm(embedded), layer.hidden_layernorm(state)), dim=1)
        x = layer.input_proj(joined)
        return Reading(*layer.self_attn.read(layer.input_layernorm(x), cos, sin), x)

    def finish(self, residual: Tensor, attended: Tensor) -> Tensor:
        layer = self.mtp_layers[0]
        return layer.final_layernorm(layer.finish(residual, attended))


class EagleHead(Head):
    """EAGLE-3 on several of the target's states, each normed; attention reads token and state side by side."""

    def __init__(self, config: BlockConfig, states: int):
        super().__init__()
        self.config = config
        self.fc_norm = nn.ModuleList([RMSNorm(config.hidden, config.eps) for _ in range(states)])
        self.fc = nn.Linear(states * config.hidden, config.hidden, bias=False)
        layer = Block(config, 2 * config.hidden)
        layer.hidden_norm = RMSNorm(config.hidden, config.eps)
        self.layers = nn.ModuleList([layer])
        self.norm = RMSNorm(config.hidden, config.eps)

    def enter(self, features: Tensor) -> Tensor:
        states = features.split(self.config.hidden, dim=1)  # the last of them is not one of the head's
        return self.fc(torch.cat([norm(state) for norm, state in zip(self.fc_norm, states)], dim=1))

    def read(self, embedded: Tensor, state: Tensor, cos: Tensor, sin: Tensor) -> Reading:
        layer = self.layers[0]
        joined = torch.cat((layer.input_layernorm(embedded), layer.hidden_norm(state)), dim=1)
        return Reading(*layer.self_attn.read(joined, cos, sin), state)

    def finish(self, residual: Tensor, attended: Tensor) -> Tensor:
        return self.norm(self.layers[0].finish(residual, attended))


def build_head(kind: str, checkpoint: Checkpoint, states: Sequence[int], seed: int) -> Head:
    """An untrained head: the target's last block, without its biases, fed with the hidden state alone."""
    target = checkpoint.config
    torch.manual_seed(seed)
    if kind == "mtp":
        head = MtpHead(block_config(target))
        layer, joins, norm = head.mtp_layers[0], head.mtp_layers[0].input_proj, head.mtp_layers[0].final_layernorm
    else:
        head = EagleHead(block_config(target), len(states))
        layer, joins, norm = head.layers[0], head.fc, head.norm
    with torch.no_grad():
        _join(joins.weight)
        _take_over(layer, checkpoint)
        norm.weight.copy_(FLATTER * (checkpoint.tensors["model.norm.weight"].float() + target.norm_offset))
    return head


def _join(weight: Tensor) -> None:
    """Noise, and the identity on the last of the states that are joined."""
    weight.normal_(0, SPREAD)
    weight[:, -len(weight) :] += torch.eye(len(weight))


def _take_over(layer: Block, checkpoint: Checkpoint) -> None:
    config, base = checkpoint.config, f"model.layers.{len(checkpoint.config.layers) - 1}."

    def norm(name: str) -> Tensor:
        return checkpoint.tensors[f"{base}{name}.weight"].float() + config.norm_offset

    for name in ("q_proj", "k_proj", "v_proj"):
        own, theirs = getattr(layer.self_attn, name).weight, checkpoint.tensors[f"{base}self_attn.{name}.weight"]
        own.normal_(0, SPREAD)
        own[:, -config.hidden :] = theirs.float()
    layer.self_attn.o_proj.weight.copy_(checkpoint.tensors[f"{base}self_attn.o_proj.weight"])
    for name in ("gate_proj", "up_proj", "down_proj"):
        getattr(layer.mlp, name).weight.copy_(checkpoint.tensors[f"{base}mlp.{name}.weight"])
    if config.qk_norm:
        layer.self_attn.q_norm.weight.copy_(norm("self_attn.q_norm"))
        layer.self_attn.k_norm.weight.copy_(norm("self_attn.k_norm"))
    into = layer.hidden_norm if hasattr(layer, "hidden_norm") else layer.input_layernorm
    into.weight.copy_(norm("input_layernorm"))
    mlp_norm = "pre_feedforward_layernorm" if config.sandwich_norm else "post_attention_layernorm"
    layer.post_attention_layernorm.weight.copy_(norm(mlp_norm))
