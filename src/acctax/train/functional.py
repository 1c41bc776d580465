"""Parts of a block with gradients of their own: a few passes over memory where autograd's would be many."""

import torch
from torch import Tensor, nn


class _Norm(torch.autograd.Function):
    """x / rms(x) · weight, in float32, rounded once."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        scale = (x.float().pow(2).mean(dim=-1, keepdim=True) + eps).rsqrt_()
        ctx.save_for_backward(x, weight, scale)
        return (x * scale * weight).to(x.dtype)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        x, weight, scale = ctx.saved_tensors
        normed = x * scale  # float32: scale is
        grad_normed = grad * normed
        grad_weight = grad_normed.flatten(0, -2).sum(dim=0)
        inner = (grad_normed * weight).mean(dim=-1, keepdim=True)
        return (grad * weight).addcmul_(normed, inner, value=-1).mul_(scale).to(x.dtype), grad_weight, None


class RMSNorm(nn.Module):
    def __init__(self, size: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return _Norm.apply(x, self.weight, self.eps)


class _Rotation(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        return _turn(x, cos, sin)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None, None]:
        cos, sin = ctx.saved_tensors
        return _turn(grad, cos, -sin), None, None


def _turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, dim=-1)
    out = torch.empty_like(x)
    half = x.shape[-1] // 2
    out[..., :half] = a * cos - b * sin
    out[..., half:] = b * cos + a * sin
    return out


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x [n, heads, head_dim]; cos and sin [n, head_dim / 2] turn the pairs (i, i + head_dim / 2)."""
    return _Rotation.apply(x, cos[:, None], sin[:, None])
