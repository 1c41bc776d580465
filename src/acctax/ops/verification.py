"""What is kept of a draft, in plain PyTorch: the law that logits stand for, and rejection sampling by it."""

import torch
from torch import Tensor


def law(logits: Tensor, temperature: float, top_k: int = 0, top_p: float = 1.0) -> Tensor:
    """Probabilities [..., vocab] in float32 of logits [..., vocab]: temperature above 0, then top-k, then top-p.

    top-k keeps ties of the k-th, 0 keeps all; top-p drops what lies below the smallest set of mass ≥ top_p and always
    keeps the largest. Equal logits stay or go together. A row with NaN, or whose largest is infinite, is NaN.
    """
    logits = logits.float() / temperature
    if 0 < top_k < logits.shape[-1]:
        kth = logits.topk(top_k, dim=-1).values[..., -1:]
        logits = logits.masked_fill(logits < kth, -torch.inf)
    if top_p < 1.0:
        ascending = logits.sort(dim=-1).values
        dropped = ascending.softmax(dim=-1).cumsum(dim=-1) <= 1.0 - top_p
        dropped[..., -1] = False
        least = ascending.masked_fill(dropped, torch.inf).amin(dim=-1, keepdim=True)
        logits = logits.masked_fill(logits < least, -torch.inf)
    return logits.softmax(dim=-1)


def verify(
    logits: Tensor,
    q: Tensor | None,
    drafts: Tensor,
    u: Tensor,
    temperature: float,
    top_k: int = 0,
    top_p: float = 1.0,
) -> Tensor:
    """How many drafts are kept, then the committed tokens, then -1: int64 [K + 2].

    logits [K+1, vocab] f32 of the target, after each draft; q [K, vocab] f32 the laws the drafts were drawn from, None
    for one-hot drafts; drafts [K] int64; u [K+1] f64, uniform in (0, 1]. A draft x is kept iff u·q(x) < p(x); the
    token that follows is drawn by the last u, from (p − q)⁺, or from p itself after a full acceptance or where nothing
    is left. Temperature 0: a draft is kept iff it is the arg-max, which also follows; q and u are not read.
    The law, the arg-max and the drawn token are the ops', whichever kernels they have: so verify agrees with them.
    """
    K = len(drafts)
    if temperature == 0:
        best = torch.ops.acctax.argmax.default(logits)
        n = _prefix(best[:K] == drafts)
        token = best[n]
    else:
        p = torch.ops.acctax.law.default(logits, temperature, top_k, top_p)
        rows = torch.arange(K, device=logits.device)
        proposed = logits.new_ones(K) if q is None else q[rows, drafts]
        n = _prefix((proposed > 0) & (u[:K] * proposed < p[rows, drafts]))
        rest = p[n]
        if n < K and q is not None:
            rest = (p[n] - q[n]).clamp_min(0)
        elif n < K:
            rest = p[n].index_fill(0, drafts[n], 0)
        rest = rest if rest.sum() > 0 else p[n]
        token = drafts.new_tensor(torch.ops.acctax.pick.default(rest, float(u[K])))
    return torch.cat([drafts.new_tensor([n]), drafts[:n], token[None], drafts.new_full((K - n,), -1)])


def _prefix(kept: Tensor) -> int:
    return int(kept.long().cumprod(0).sum())
