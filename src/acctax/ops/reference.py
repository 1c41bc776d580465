"""Every op in plain PyTorch: what the compiled kernels must agree with, and what serves where there are none.

A row of a result is bitwise the same whatever the number of rows M and of threads is. Sums are therefore made
of element-wise additions (`_tree_sum`) or of one matrix-vector product a row, never of a matrix product whose
tiling follows M; and what is more than basic arithmetic runs row by row (`_by_row`).
"""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

Unpack = Callable[[Tensor, Tensor | None, Tensor | None, int, int], Tensor]

_unpack: dict[str, Unpack] = {}
_activations: dict[str, Callable[[Tensor], Tensor]] = {}

_ACTIVATIONS = {"silu": F.silu, "gelu_tanh": partial(F.gelu, approximate="tanh")}


def register_format(format: str, unpack: Unpack, activations: Callable[[Tensor], Tensor] = lambda x: x) -> None:
    """Lets `linear` read `format`: unpack(codes, scales, global_scale, group, K) -> f32 [N, K].

    activations: [M, K] f32 -> [M, K] f32, for a format that rounds what its weights are multiplied with.
    """
    _unpack[format], _activations[format] = unpack, activations


def unpack(
    codes: Tensor, scales: Tensor | None, global_scale: Tensor | None, format: str, group: int, width: int
) -> Tensor:
    """The weight [N, width] in f32 that is packed as `format`. Raises RuntimeError for a format nobody registered."""
    if format not in _unpack:
        raise RuntimeError(f"linear: no weight format {format!r}, only {', '.join(sorted(_unpack))}")
    return _unpack[format](codes, scales, global_scale, group, width).float()


def rms_norm(x: Tensor, weight: Tensor, eps: float, residual: Tensor | None = None) -> Tensor:
    """x / rms(x) * weight (+ residual) over the last dimension, in f32, rounded once to x.dtype.

    x, residual [M, H] bf16 or f32; weight [H] f32.
    """
    y = _normed(x.float(), weight, eps)
    return (y if residual is None else y + residual.float()).to(x.dtype)


def linear(
    x: Tensor,
    codes: Tensor,
    scales: Tensor | None,
    global_scale: Tensor | None,
    format: str,
    group: int,
    bias: Tensor | None = None,
    residual: Tensor | None = None,
    float_out: bool = False,
    norm: Tensor | None = None,
    eps: float = 0.0,
    activation: str = "",
) -> Tensor:
    """x @ W.T + bias + residual, W [N, K] packed as `format`, accumulated in f32 and rounded once.

    x [M, K] bf16 or f32; bias [N] f32; residual [M, N] x.dtype. Returns [M, N] x.dtype, or f32 if float_out.
    Before the product, x is normed if there is a norm [K] (`rms_norm`), and with an activation ("silu",
    "gelu_tanh") x is [M, 2K], a gate beside what it lets through: act(gate) * up; either is rounded to x.dtype.
    Raises RuntimeError for a format that nobody registered, and for both a norm and an activation.
    """
    if norm is not None and activation:
        raise RuntimeError("linear: a gate takes no norm")
    if norm is not None:
        x = rms_norm(x, norm, eps)
    if activation:
        x = _gated(x, activation)
    weight = unpack(codes, scales, global_scale, format, group, x.shape[1])
    y = x.new_empty(len(x), len(weight), dtype=torch.float32)
    for m, row in enumerate(_activations[format](x.float())):
        y[m] = torch.mv(weight, row.clone())  # a copy: BLAS sums differently at another alignment
    if bias is not None:
        y = y + bias
    if residual is not None:
        y = y + residual.float()
    return y if float_out else y.to(x.dtype)


def attend(
    qkv: Tensor,
    q_norm: Tensor | None,
    k_norm: Tensor | None,
    eps: float,
    cos: Tensor,
    sin: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    position: int,
    scale: float,
    window: int = 0,
) -> Tensor:
    """Norms and rotates q and k, appends k and v to the caches, and attends causally over the cache.

    qkv [M, (H + 2*Hkv)*D]: q, k and v side by side; q_norm, k_norm [D] f32, RMS norms applied per head before
    the rotary; cos, sin [max_len, D/2] f32, which rotate the pairs (i, i + D/2); v_cache [Hkv, max_len, D]; k_cache
    [Hkv, blocks, words, 16, D / words], the key of position p in column p % 16 of block p // 16, in words of 32 bits.
    New row m stands at p = position + m and attends to rows max(0, p - window + 1)..p; window 0: 0..p.
    Returns [M, H*D] in qkv.dtype. Raises RuntimeError when the rows do not fit into the cache.
    """
    M = qkv.shape[0]
    Hkv, max_len, D = v_cache.shape
    q, k, v = qkv.split((qkv.shape[1] - 2 * Hkv * D, Hkv * D, Hkv * D), dim=1)
    if position < 0 or position + M > max_len or position + M > len(cos):
        raise RuntimeError(f"attend: {M} rows from {position} on do not fit into a cache of {max_len} rows")
    if window < 0:
        raise RuntimeError(f"attend: a window of {window} sees nothing")
    if not (k_cache.is_contiguous() and v_cache.is_contiguous()):
        raise RuntimeError("attend: the caches must be contiguous")

    rows = slice(position, position + M)
    q, new_k = (
        _rotated(_head_normed(t.float().reshape(M, -1, D), norm, eps), cos[rows, None], sin[rows, None])
        for t, norm in ((q, q_norm), (k, k_norm))
    )  # [M, H, D], [M, Hkv, D] f32
    positions = torch.arange(position, position + M, device=qkv.device)
    by_word = new_k.to(k_cache.dtype).unflatten(2, (k_cache.shape[2], -1))  # [M, Hkv, words, D / words]
    k_cache[:, positions // 16, :, positions % 16] = by_word
    v_cache[:, rows] = v.reshape(M, Hkv, D).transpose(0, 1)

    all_keys = k_cache.transpose(2, 3).flatten(3).flatten(1, 2)  # [Hkv, 16 · blocks, D]
    out = v.new_empty(M, q.shape[1] * D)
    for m in range(M):
        end = position + m + 1
        seen = slice(max(0, end - window) if window else 0, end)
        keys, values = all_keys[:, None, seen].float(), v_cache[:, None, seen].float()  # [Hkv, 1, L, D]
        scores = _tree_sum(q[m].view(Hkv, -1, 1, D) * keys) * scale  # [Hkv, H/Hkv, L]
        weights = _by_row(torch.exp, scores - scores.amax(-1, keepdim=True))
        mixed = _tree_sum((weights[..., None] * values).transpose(-1, -2))  # [Hkv, H/Hkv, D]
        out[m] = (mixed / _tree_sum(weights)[..., None]).flatten()
    return out


def attend_at(
    qkv: Tensor,
    q_norm: Tensor | None,
    k_norm: Tensor | None,
    eps: float,
    cos: Tensor,
    sin: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    position: Tensor,
    scale: float,
    window: int = 0,
) -> Tensor:
    """`attend`, where only the device knows the position: int32 [1]."""
    at = int(position)  # the op, whichever kernel it has: a row's bits are the same
    return torch.ops.acctax.attend.default(qkv, q_norm, k_norm, eps, cos, sin, k_cache, v_cache, at, scale, window)


def argmax(logits: Tensor) -> Tensor:
    """The first index of each row's largest, [M, vocab] f32 -> [M] int64; NaN is larger than everything."""
    largest = logits.amax(-1, keepdim=True)  # NaN where a row holds one
    return ((logits == largest) | logits.isnan()).to(torch.uint8).argmax(-1)


def pick(weights: Tensor, u: float) -> int:
    """The first index at which the running sum of weights [vocab] f32 reaches u of their total; its weight is above 0.

    0 < u <= 1: a uniform u draws from the law that the weights are proportional to. Raises RuntimeError where no
    weight is above 0.
    """
    running = weights.double().cumsum(0)
    reached = ((running >= u * running[-1:]) & (weights > 0)).nonzero()
    if not len(reached):
        reached = (weights > 0).nonzero()[-1:]
    if not len(reached):
        raise RuntimeError("pick: no weight is above 0")
    return int(reached[0])


def read_checksum(buffer: Tensor) -> int:
    """Sum of a uint8 buffer's 64-bit words, modulo 2^64 as a signed number: one read of every byte."""
    if buffer.dtype != torch.uint8 or not buffer.is_contiguous() or buffer.numel() % 8:
        raise RuntimeError("read_checksum: needs a contiguous uint8 buffer of whole 64-bit words")
    return int(buffer.view(torch.int64).sum())


def _gated(x: Tensor, activation: str) -> Tensor:
    """act(gate) * up, x [M, 2K] -> [M, K]."""
    if activation not in _ACTIVATIONS:
        raise RuntimeError(f"linear: no activation {activation!r}; use 'silu' or 'gelu_tanh'")
    gate, up = x.float().chunk(2, -1)
    return (_by_row(_ACTIVATIONS[activation], gate.contiguous()) * up).to(x.dtype)


def _normed(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    mean_square = _tree_sum(x * x) / x.shape[-1]
    return x * (1 / torch.sqrt(mean_square + eps))[..., None] * weight


def _head_normed(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    return x if weight is None else _normed(x, weight, eps)


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x [M, H, D], cos and sin [M, 1, D/2]."""
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def _by_row(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """f of each row alone: torch rounds e^x differently in the remainder of a loop than in its vectors, so
    where a row starts and ends must not depend on the rows beside it."""
    return torch.stack([f(row) for row in x.flatten(0, -2)]).view_as(x) if x.numel() else x


def _tree_sum(x: Tensor) -> Tensor:
    """Sum over the last dimension in a fixed order, by halving: only element-wise additions."""
    while x.shape[-1] > 1:
        half = (x.shape[-1] + 1) // 2
        head, tail = x[..., :half], x[..., half:]
        x = head + F.pad(tail, (0, half - tail.shape[-1]))
    return x[..., 0]
