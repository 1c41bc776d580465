"""How far the head's law is from the target's, row by row, with its gradient: logits never exist all at once.

p is the target's law on the draft vocabulary: what it gives to other tokens is missing from it, and nothing is learned
from a row that is missing altogether. Its cross-entropy −Σ p log q has the gradient mass · q − p in the logits of
q = softmax(z), mass = Σ p.
"""

from typing import NamedTuple

import torch
from torch import Tensor

CHUNK = 128  # rows whose logits exist at once: they stay in the cache


class Judgement(NamedTuple):
    """Of each row, [n]."""

    cross_entropy: Tensor
    overlap: Tensor
    best: Tensor  # draft id of the head's arg-max
    accepted: Tensor  # min(1, q / p) of the text's own next token, 0 outside the draft vocabulary


def law(states: Tensor, lm_head: Tensor, lse: Tensor) -> Tensor:
    """The target's law on the draft vocabulary [R, size], from its last states [R, hidden] and full log-sum-exp [R]."""
    laws = torch.empty(len(states), len(lm_head), dtype=torch.bfloat16)
    for at in range(0, len(states), CHUNK):
        rows = slice(at, at + CHUNK)
        logits = (states[rows] @ lm_head.T).float()
        log_p = logits.log_softmax(dim=-1)
        inside = (logits[:, :1] - log_p[:, :1] - lse[rows, None]).clamp_max_(0)  # log of the draft vocabulary's share
        laws[rows] = (log_p + inside).exp_()
    return laws


class _Distance(torch.autograd.Function):
    @staticmethod
    def forward(ctx, states: Tensor, lm_head: Tensor, laws: Tensor, label: Tensor, text: Tensor, weights: Tensor):
        """label [n]: rows of laws; text [n]: draft id of the token that follows, −1 outside; weights [n]"""
        n = len(states)
        grad, total = torch.empty_like(states), 0.0
        judged = [states.new_empty(n, dtype=dtype) for dtype in (torch.float, torch.float, torch.long, torch.float)]
        for at in range(0, n, CHUNK):
            rows = slice(at, at + CHUNK)
            p = laws[label[rows]].float()
            log_q = (states[rows] @ lm_head.T).float().log_softmax(dim=-1)
            cross_entropy = -torch.linalg.vecdot(p, log_q)
            best = log_q.argmax(dim=-1)
            q = log_q.exp_()
            overlap = torch.minimum(p, q).sum(dim=-1)
            ids = text[rows, None].clamp_min(0)
            accepted = (q.gather(1, ids) / p.gather(1, ids).clamp_min_(1e-9)).clamp_max_(1)[:, 0]
            for kept, part in zip(judged, (cross_entropy, overlap, best, accepted * (text[rows] >= 0))):
                kept[rows] = part
            total += float(weights[rows] @ cross_entropy)
            grad[rows] = ((q * p.sum(dim=-1, keepdim=True) - p) * weights[rows, None]).to(states.dtype) @ lm_head
        ctx.save_for_backward(grad)
        ctx.mark_non_differentiable(*judged)
        return states.new_tensor(total, dtype=torch.float), *judged

    @staticmethod
    def backward(ctx, grad_total: Tensor, *_: Tensor):
        [grad] = ctx.saved_tensors
        return grad * grad_total.to(grad.dtype), None, None, None, None, None


def distance(
    states: Tensor, lm_head: Tensor, laws: Tensor, label: Tensor, text: Tensor, weights: Tensor
) -> tuple[Tensor, Judgement]:
    """Σ weights · cross-entropy over the rows, and each row judged."""
    total, *judged = _Distance.apply(states, lm_head, laws, label, text, weights)
    return total, Judgement(*judged)
