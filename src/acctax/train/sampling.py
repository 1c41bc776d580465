"""Choosing the next token of many texts at once, each at its own temperature and with random numbers of its own."""

import torch
from torch import Tensor

TRIES = 4  # at a token inside the nucleus, then the best one is taken


def choose(logits: Tensor, temperatures: Tensor, top_ps: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """logits [n, vocab] → tokens [n], arg-max [n], log-sum-exp [n].

    temperatures [n], 0 for the arg-max; top_ps [n], 1 for the whole law; uniforms [n, TRIES] in [0, 1).
    """
    logits = logits.float()
    best = logits.argmax(dim=-1)
    p = logits.softmax(dim=-1)
    peak = best[:, None]
    lse = (logits.gather(1, peak) - p.gather(1, peak).log_())[:, 0]
    tokens = best.clone()
    drawn = (temperatures > 0).nonzero()[:, 0]
    if len(drawn):
        tokens[drawn] = _draw(p[drawn], temperatures[drawn], top_ps[drawn], uniforms[drawn], best[drawn])
    return tokens, best, lse


def _draw(p: Tensor, temperatures: Tensor, top_ps: Tensor, uniforms: Tensor, best: Tensor) -> Tensor:
    """By inversion of the law; a token outside the nucleus is drawn again."""
    bent = (temperatures != 1).nonzero()[:, 0]
    p[bent] = p[bent].pow_(1 / temperatures[bent, None])
    below = p.cumsum(dim=-1)
    total = below[:, -1:]
    tries = torch.searchsorted(below, uniforms * total, right=True).clamp_(max=p.shape[1] - 1)
    tokens = tries[:, 0].clone()
    open_rows = (top_ps < 1).nonzero()[:, 0]
    for i in range(TRIES):
        law, drawn = p[open_rows], tries[open_rows, i]
        above = law.masked_fill_(law <= law.gather(1, drawn[:, None]), 0).sum(dim=-1)
        tokens[open_rows] = drawn
        open_rows = open_rows[above >= top_ps[open_rows] * total[open_rows, 0]]
    tokens[open_rows] = best[open_rows]
    return tokens
