"""Which drafts are kept, and which token follows them. The output's law is the target's, whatever the drafter is."""

from collections.abc import Sequence

import torch
from torch import Tensor

from acctax import ops


def accept_greedy(best: Sequence[int], drafts: Sequence[int]) -> tuple[int, int]:
    """best: the target's arg-max after each prefix, K+1 of them → number of drafts kept, token that follows."""
    n = 0
    while n < len(drafts) and drafts[n] == best[n]:
        n += 1
    return n, best[n]


def accept_sampled(p: Tensor, q: Tensor | None, drafts: Sequence[int], u: Sequence[float]) -> tuple[int, int]:
    """Rejection sampling (Leviathan et al. 2023; Chen et al. 2023) → number of drafts kept, token that follows.

    p [K+1, vocab] the target's laws; q [K, vocab] the laws the drafts were drawn from, None for one-hot drafts;
    u [K+1] uniform in (0, 1]. A draft x is kept iff u·q(x) < p(x), strictly, so that p(x) = 0 is never kept. The
    token that follows is drawn by the last u, from (p − q)⁺, or from p itself after a full acceptance.
    """
    n = 0
    while n < len(drafts) and _keeps(p[n], None if q is None else q[n], drafts[n], u[n]):
        n += 1
    rest = p[n]
    if n < len(drafts):
        if q is None:
            rest = p[n].clone()
            rest[drafts[n]] = 0
        else:
            rest = (p[n] - q[n]).clamp_min(0)
        if rest.sum() <= 0:  # p = q to the last bit, and u = 1
            rest = p[n]
    return n, ops.pick(rest, u[-1])


def _keeps(p: Tensor, q: Tensor | None, draft: int, u: float) -> bool:
    proposed = 1.0 if q is None else float(q[draft])
    return proposed > 0 and u * proposed < float(p[draft])


def uniforms(count: int, generator: torch.Generator) -> Tensor:
    """[count] in (0, 1], float64: a zero would accept what the target forbids."""
    return 1.0 - torch.rand(count, generator=generator, dtype=torch.float64)
