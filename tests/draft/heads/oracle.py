"""What a head of each family computes, in plain PyTorch: the whole sequence at once, no cache, the file's own names."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import linear, silu

from tests.draft.heads.published import DIM, HEADS, KV_HEADS

EPS = 1e-5
Weights = dict[str, Tensor]
# (embeddings [T, H], states [T, H]) of all pairs so far → the block's output [T, H], before any last norm
Layer = Callable[[Tensor, Tensor], Tensor]


def rms(x: Tensor, weight: Tensor) -> Tensor:
    return x * (x.pow(2).mean(-1, keepdim=True) + EPS).rsqrt() * weight


def rotate(x: Tensor, dims: int) -> Tensor:
    """x [heads, T, D]: the first `dims` rotated by position, in halves, the rest left."""
    turned, rest = x[..., :dims], x[..., dims:]
    angles = torch.arange(x.shape[1])[:, None] * 10000.0 ** (-torch.arange(0, dims, 2) / dims)
    cos, sin = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
    a, b = turned.chunk(2, -1)
    return torch.cat([turned * cos + torch.cat([-b, a], -1) * sin, rest], -1)


def attention(w: Weights, prefix: str, x: Tensor, rotary: int = DIM, gated: bool = False, offset: float = 0) -> Tensor:
    def project(name: str) -> Tensor:
        return linear(x, w[f"{prefix}{name}.weight"], w.get(f"{prefix}{name}.bias"))

    T = len(x)
    q, gate = project("q_proj"), None
    if gated:
        q, gate = q.view(T, HEADS, 2 * DIM).chunk(2, -1)
    q, k, v = (t.reshape(T, -1, DIM).transpose(0, 1) for t in (q, project("k_proj"), project("v_proj")))
    if f"{prefix}q_norm.weight" in w:
        q, k = rms(q, w[f"{prefix}q_norm.weight"] + offset), rms(k, w[f"{prefix}k_norm.weight"] + offset)
    q, k = rotate(q, rotary), rotate(k, rotary)
    k, v = (t.repeat_interleave(HEADS // KV_HEADS, 0) for t in (k, v))
    scores = q @ k.mT * DIM**-0.5 + torch.full((T, T), -torch.inf).triu(1)
    out = (scores.softmax(-1) @ v).transpose(0, 1)  # [T, heads, D]
    if gate is not None:
        out = out * gate.sigmoid()
    return linear(out.reshape(T, -1), w[f"{prefix}o_proj.weight"])


def mlp(w: Weights, prefix: str, x: Tensor) -> Tensor:
    gate, up = linear(x, w[f"{prefix}gate_proj.weight"]), linear(x, w[f"{prefix}up_proj.weight"])
    return linear(silu(gate) * up, w[f"{prefix}down_proj.weight"])


def eagle3_layer(w: Weights, p: str, norm_before_residual: bool = False) -> Layer:
    def layer(e: Tensor, g: Tensor) -> Tensor:
        normed = rms(g, w[f"{p}hidden_norm.weight"])
        x = torch.cat([rms(e, w[f"{p}input_layernorm.weight"]), normed], -1)
        a = attention(w, f"{p}self_attn.", x) + (normed if norm_before_residual else g)
        return a + mlp(w, f"{p}mlp.", rms(a, w[f"{p}post_attention_layernorm.weight"]))

    return layer


def eagle1_layer(w: Weights) -> Layer:
    def layer(e: Tensor, h: Tensor) -> Tensor:
        x = linear(torch.cat([e, h], -1), w["fc.weight"], w["fc.bias"])
        a = x + attention(w, "layers.0.self_attn.", x)
        return a + mlp(w, "layers.0.mlp.", rms(a, w["layers.0.post_attention_layernorm.weight"]))

    return layer


def mtp_layer(
    w: Weights, p: str, token_norm: str, hidden_norm: str, joint: str, hidden_first: bool = False,
    blind_start: bool = False, offset: float = 0.0, **kind: object,
) -> Layer:  # fmt: skip
    def layer(e: Tensor, h: Tensor) -> Tensor:
        if blind_start:
            e = torch.cat([torch.zeros_like(e[:1]), e[1:]])
        parts = [rms(e, w[token_norm] + offset), rms(h, w[hidden_norm] + offset)]
        x = linear(torch.cat(parts[::-1] if hidden_first else parts, -1), w[joint])
        normed = rms(x, w[f"{p}input_layernorm.weight"] + offset)
        a = x + attention(w, f"{p}self_attn.", normed, offset=offset, **kind)
        return a + mlp(w, f"{p}mlp.", rms(a, w[f"{p}post_attention_layernorm.weight"] + offset))

    return layer


def chain(
    layer: Layer, embedding: Tensor, lm_head: Tensor, norm: Tensor | None, recycles_normed: bool, states: Tensor,
    tokens: list[int], ids: Tensor, K: int,
) -> tuple[list[int], list[Tensor]]:  # fmt: skip
    """K drafts after the pairs (states [T, H], tokens [T]) → target ids, logits [draft vocab] of each."""
    tokens, drafts, all_logits = list(tokens), [], []
    for _ in range(K):
        out = layer(embedding[tokens], states)[-1:]
        normed = out if norm is None else rms(out, norm)
        logits = linear(normed, lm_head)[0]
        all_logits.append(logits)
        drafts.append(int(ids[logits.argmax()]))
        tokens.append(drafts[-1])
        states = torch.cat([states, normed if recycles_normed else out])
    return drafts, all_logits
