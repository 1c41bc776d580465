"""Tokens follow the law they are drawn from; a greedy text takes the best."""

import torch

from acctax.train.sampling import TRIES, choose

LOGITS = torch.tensor([2.0, 1.0, 0.5, 0.0, -1.0])
N = 40_000


def draw(temperature: float, top_p: float):
    generator = torch.Generator().manual_seed(0)
    rows = LOGITS.expand(N, -1).bfloat16()
    uniforms = torch.rand(N, TRIES, generator=generator)
    return choose(rows, torch.full((N,), temperature), torch.full((N,), top_p), uniforms)


def test_frequencies_follow_the_law():
    for temperature in (0.7, 1.0):
        tokens, best, lse = draw(temperature, 1.0)
        law = (LOGITS / temperature).softmax(-1)
        assert (torch.bincount(tokens, minlength=5) / N - law).abs().sum() < 0.02
        assert (best == 0).all()
        torch.testing.assert_close(lse, LOGITS.logsumexp(-1).expand(N))


def test_greedy_takes_the_best():
    assert (draw(0.0, 1.0)[0] == 0).all()


def test_nothing_outside_the_nucleus_is_drawn():
    tokens = draw(1.0, 0.8)[0]  # the first three tokens hold 0.89, the first two 0.75
    law = LOGITS.softmax(-1)[:3] / LOGITS.softmax(-1)[:3].sum()
    assert tokens.max() == 2
    assert (torch.bincount(tokens, minlength=3) / N - law).abs().sum() < 0.02
