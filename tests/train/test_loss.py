"""The distance and its gradient are those that autograd gives for the formulas, chunk by chunk."""

import pytest
import torch

from acctax.train import loss
from acctax.train.loss import distance, law

ROWS, HIDDEN, DRAFT, FULL = 11, 8, 13, 20


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(loss, "CHUNK", 4)


@pytest.fixture
def given():
    generator = torch.Generator().manual_seed(0)
    full = torch.randn(FULL, HIDDEN, generator=generator)
    targets, states = (torch.randn(ROWS, HIDDEN, generator=generator) for _ in range(2))
    p = (targets @ full.T).softmax(-1)[:, :DRAFT].bfloat16()
    text = torch.randint(-1, DRAFT, (ROWS,), generator=generator)
    return full, targets, states, p, text, torch.rand(ROWS, generator=generator)


def test_law_is_the_targets_without_what_is_outside(given):
    full, targets, _, p, *_ = given
    got = law(targets, full[:DRAFT], (targets @ full.T).logsumexp(-1))
    torch.testing.assert_close(got.float(), p.float(), atol=2e-3, rtol=1e-2)


def test_value_and_gradient(given):
    full, _, states, p, text, weights = given
    label = torch.arange(ROWS).flip(0)
    mine, theirs = (states.clone().requires_grad_() for _ in range(2))
    total, judged = distance(mine, full[:DRAFT], p, label, text, weights)
    total.backward()

    target, log_q = p[label].float(), (theirs @ full[:DRAFT].T).log_softmax(-1)
    entropy, overlap = -(target * log_q).sum(-1), torch.minimum(target, log_q.exp()).sum(-1)
    expected = (weights * entropy).sum()
    expected.backward()
    torch.testing.assert_close(total, expected)
    torch.testing.assert_close(mine.grad, theirs.grad, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(judged.cross_entropy, entropy.detach())
    torch.testing.assert_close(judged.overlap, overlap.detach())
    assert torch.equal(judged.best, log_q.argmax(-1))
    inside = text >= 0
    q, wanted = (law_[torch.arange(ROWS), text.clamp_min(0)] for law_ in (log_q.exp().detach(), target))
    torch.testing.assert_close(judged.accepted, torch.where(inside, (q / wanted).clamp_max(1), 0.0))
