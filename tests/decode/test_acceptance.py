"""The acceptance rule is exact: whatever the drafter proposes, the output's law is the target's."""

import pytest
import torch

from acctax.decode.acceptance import accept_greedy, accept_sampled, uniforms

VOCAB, TRIALS = 6, 100_000


def laws(rows, seed):
    return torch.randn(rows, VOCAB, generator=torch.Generator().manual_seed(seed)).mul(1.5).softmax(-1)


def first_token_law(p, q, draw, shown_q):
    """Empirical law of the first committed token, one draft a cycle."""
    generator = torch.Generator().manual_seed(1)
    counts = torch.zeros(VOCAB)
    us = uniforms(2 * TRIALS, generator).view(TRIALS, 2).tolist()
    for draft, u in zip(draw(generator).tolist(), us):
        n, token = accept_sampled(p, shown_q, [draft], u)
        counts[draft if n else token] += 1
    return counts / TRIALS


def total_variation(a, b):
    return 0.5 * float((a - b).abs().sum())


def test_sampled_drafts_leave_the_targets_law():
    p, q = laws(2, 3), laws(1, 4)
    law = first_token_law(p, q, lambda g: q[0].multinomial(TRIALS, replacement=True, generator=g), q)
    assert total_variation(law, p[0]) < 0.01


def test_one_hot_drafts_leave_the_targets_law():
    p, q = laws(2, 3), laws(1, 4)
    best = q[0].argmax().repeat(TRIALS)
    assert total_variation(first_token_law(p, q, lambda g: best, None), p[0]) < 0.01


def test_a_best_draft_judged_as_if_sampled_would_not():
    """The fault that `Draft.q is None` rules out (bugs of several engines): a test that can see it."""
    p, q = laws(2, 3), laws(1, 4)
    best = q[0].argmax().repeat(TRIALS)
    assert total_variation(first_token_law(p, q, lambda g: best, q), p[0]) > 0.1


def test_tau_is_what_the_overlaps_say():
    """τ = 1 + a₀ + a₀a₁ + …, a = Σ min(p, q), for independent rows."""
    K, trials = 3, 20_000
    p, q = laws(K + 1, 5), laws(K, 6)
    generator = torch.Generator().manual_seed(2)
    drafts = q.multinomial(trials, replacement=True, generator=generator).T.tolist()
    committed = sum(
        1 + accept_sampled(p, q, draft, uniforms(K + 1, generator).tolist())[0] for draft in drafts
    )
    overlap = torch.minimum(p[:K], q).sum(-1)
    assert committed / trials == pytest.approx(1 + float(overlap.cumprod(0).sum()), abs=0.03)


def test_what_the_target_forbids_is_never_kept():
    p = torch.tensor([[0.0, 1.0], [0.5, 0.5]])
    q = torch.tensor([[1.0, 0.0]])
    tiny = [1e-300, 0.5]
    assert accept_sampled(p, q, [0], tiny) == (0, 1)
    assert accept_sampled(p, None, [0], tiny) == (0, 1)


def test_what_the_drafter_cannot_draw_is_never_kept():
    p = torch.tensor([[0.5, 0.5], [0.5, 0.5]])
    q = torch.tensor([[1.0, 0.0]])
    assert accept_sampled(p, q, [1], [0.5, 0.5])[0] == 0


def test_equal_laws_leave_no_residual():
    p = torch.tensor([[0.25, 0.75], [0.5, 0.5]])
    n, token = accept_sampled(p, p[:1], [0], [1.0, 1.0])
    assert (n, token) == (0, 1)  # u·q < p fails, the residual is empty: p itself serves


def test_uniforms_have_no_zero():
    drawn = uniforms(100_000, torch.Generator().manual_seed(0))
    assert drawn.dtype == torch.float64 and float(drawn.min()) > 0 and float(drawn.max()) <= 1


@pytest.mark.parametrize(
    "best, drafts, expected",
    [([5, 6, 7], [5, 6], (2, 7)), ([5, 6, 7], [5, 9], (1, 6)), ([5, 6, 7], [9, 6], (0, 5)), ([5], [], (0, 5))],
)
def test_greedy(best, drafts, expected):
    assert accept_greedy(best, drafts) == expected
