"""argmax, law and verify: what is chosen from logits."""

import pytest
import torch

from acctax.ops import reference, verification


@pytest.mark.parametrize("n", [1, 5, 300, 9001])
def test_argmax_is_the_first_of_the_largest(kernels, random, n):
    logits = random(4, n)
    logits[1] = -logits[1].abs()
    logits[2, n // 3 :] = 7.0  # many of them
    logits[3] = -torch.inf
    found = kernels.argmax(logits)
    assert found[:2].tolist() == logits[:2].argmax(-1).tolist()
    assert found[2:].tolist() == [n // 3, 0]


def test_argmax_of_what_is_not_finite_and_of_zeros(kernels, random):
    logits = random(4, 5000)
    logits[0, 4999] = torch.nan
    logits[1, 2500] = torch.inf
    logits[2] = -torch.inf
    logits[2, 4999] = -3
    logits[3] = -logits[3].abs() - 1
    logits[3, 17], logits[3, 18] = -0.0, 0.0
    assert kernels.argmax(logits).tolist() == [4999, 2500, 4999, 17]


@pytest.mark.parametrize("temperature", [1.0, 0.7, 2.0])
@pytest.mark.parametrize(
    ("top_k", "top_p"), [(0, 1.0), (1, 1.0), (20, 1.0), (0, 0.9), (0, 1e-6), (20, 0.9), (10**6, 0.5)]
)
def test_law_is_the_reference(kernels_once, random, temperature, top_k, top_p):
    kernels_once.seed(3)
    logits = 3 * random(2, 5000)
    p, expected = (f(logits, temperature, top_k, top_p) for f in (kernels_once.law, verification.law))
    assert torch.equal(p > 0, expected > 0)
    torch.testing.assert_close(p, expected, rtol=1e-5, atol=1e-9)


FLAT, PEAKED, TIED = "flat", "peaked", "tied"


@pytest.mark.parametrize("shape", [FLAT, PEAKED, TIED])
@pytest.mark.parametrize(
    ("top_k", "top_p"), [(50, 1.0), (50, 0.9), (5000, 1.0), (9000, 0.5), (0, 0.9), (0, 0.9999), (0, 1 - 1e-7)]
)
def test_law_of_a_whole_vocabulary(kernels_once, random, shape, top_k, top_p):
    """Wherever the least that is kept lies: at a level of few logits, of many, of equal ones, or below all levels."""
    kernels_once.seed(4)
    logits = random(1, 40_000)
    if shape == PEAKED:
        logits = 6 * logits
        logits[0, 12_345] = 30.0
    elif shape == TIED:
        logits = logits.round()
    p, logits = kernels_once.law(logits, 1.0, top_k, top_p)[0], logits[0].double()
    kth = logits.topk(top_k).values[-1] if top_k else logits.min()
    law = logits.where(logits >= kth, -torch.inf).softmax(0)
    least = logits[p > 0].min()
    assert torch.equal(p > 0, logits >= least)
    assert law[logits > least].sum() < top_p + 1e-6 and law[logits >= least].sum() > top_p - 1e-6
    torch.testing.assert_close(p.double(), law.where(p > 0, 0) / law[p > 0].sum(), rtol=1e-5, atol=0)


def test_law_of_few_large_and_forbidden_logits(kernels):
    forbidden = -torch.inf
    for row in ([5.0], [forbidden, 2.0, forbidden], [0.0, 0.0, 0.0], [1e4, -1e4, 1e4 - 1], [-1e38, 1e38]):
        logits = torch.tensor([row])
        for top_k, top_p in ((0, 1.0), (2, 0.99), (1, 1.0)):
            p, expected = (f(logits, 0.5, top_k, top_p) for f in (kernels.law, verification.law))
            torch.testing.assert_close(p, expected, rtol=1e-5, atol=0)


def test_the_law_of_one_row_has_its_shape(kernels, random):
    logits = random(5000)
    p = kernels.law(logits, 0.7, 20, 0.9)
    assert p.shape == (5000,) and torch.equal(p, kernels.law(logits[None], 0.7, 20, 0.9)[0])


def test_verification_of_no_drafts_draws_from_the_law(kernels, random):
    """The token that `pick` finds for the same u."""
    logits, nothing = 2 * random(1, 5000), torch.zeros(0, dtype=torch.int64)
    for u in (1e-9, 0.3, 0.77, 1.0):
        out = kernels.verify(logits, None, nothing, torch.tensor([u], dtype=torch.float64), 0.7, 50, 0.95)
        assert out.tolist() == [0, reference.pick(verification.law(logits, 0.7, 50, 0.95)[0], u)]


def test_top_k_keeps_ties(kernels):
    logits = torch.tensor([[1.0, 3.0, 2.0, 2.0, 2.0, 0.0]])
    assert (kernels.law(logits, 1.0, 2) > 0).tolist() == [[False, True, True, True, True, False]]


def test_equal_logits_stay_or_go_together(kernels, random):
    logits = (2 * random(4, 3000)).round() / 2
    for top_k, top_p in ((0, 0.95), (0, 0.5), (1500, 0.8)):
        p, expected = (f(logits, 1.0, top_k, top_p) for f in (kernels.law, verification.law))
        assert torch.equal(p > 0, expected > 0)


@pytest.mark.parametrize("one_hot", [False, True])
@pytest.mark.parametrize(("vocab", "top_k", "top_p"), [(6, 0, 1.0), (6, 4, 0.9), (9000, 0, 1.0), (9000, 50, 0.95)])
def test_verify_is_the_reference_token_for_token(kernels_once, vocab, top_k, top_p, one_hot):
    g = torch.Generator().manual_seed(vocab)
    lengths = set()
    for K in (0, 1, 3, 5, 5, 5):
        logits = 3 * torch.randn(K + 1, vocab, generator=g)
        q = verification.law(logits[:K] + 0.3 * torch.randn(K, vocab, generator=g), 0.8, top_k, top_p)
        drafts = torch.multinomial(q, 1, generator=g).flatten() if K else torch.zeros(0, dtype=torch.int64)
        u = 1 - torch.rand(K + 1, generator=g, dtype=torch.float64)
        if one_hot:
            drafts, q = logits[:K].argmax(-1), None
        arguments = (logits, q, drafts, u, 0.8, top_k, top_p)
        kernels_once.seed(1 + K)
        committed, expected = kernels_once.verify(*arguments), verification.verify(*arguments)
        assert committed.tolist() == expected.tolist()
        lengths.add(int(committed[0]))
    assert len(lengths) > 1


@pytest.mark.parametrize("one_hot", [False, True])
def test_the_first_token_follows_the_targets_law(kernels_once, one_hot):
    """Exact but for the grid of u: over all drafts by their probability, the law of what is committed first."""
    kernels_once.seed(5)
    logits = torch.tensor([[0.3, 1.2, -0.5, -torch.inf, 0.7], [0.0, 1.0, 0.0, 0.0, 0.0]])
    p = logits[:1].softmax(-1)[0].double()
    q = torch.tensor([[0.3, 0.1, 0.3, 0.1, 0.2]])
    grid = 12
    first = torch.zeros(5, dtype=torch.float64)
    for x in range(5):
        chance = 1.0 if one_hot and x == 1 else 0.0 if one_hot else float(q[0, x])  # one-hot: always the draft 1
        if not chance:
            continue
        kept = min(1.0, float(p[x]) / (1.0 if one_hot else chance))
        law = None if one_hot else q
        for u0, share in ((kept * (1 - 1e-6), kept), (min(1.0, kept * (1 + 1e-6) + 1e-12), 1 - kept)):
            if share < 1e-9:
                continue
            for i in range(grid):
                u = torch.tensor([u0, (i + 0.5) / grid], dtype=torch.float64)
                out = kernels_once.verify(logits, law, torch.tensor([x]), u, 1.0)
                assert int(out[0]) == (1 if share == kept and u0 < kept else 0)
                first[out[1]] += chance * share / grid
    assert first[3] == 0
    assert 0.5 * float((first - p).abs().sum()) < 0.5 / grid


def test_edges_of_acceptance(kernels):
    logits = torch.tensor([[0.0, 0.0, -torch.inf], [0.0, 1.0, 2.0]])
    p = logits.softmax(-1)[:1]

    def verify(q, draft, *u):
        return kernels.verify(logits, q, torch.tensor([draft]), torch.tensor(u, dtype=torch.float64), 1.0).tolist()

    assert verify(p, 0, 1.0, 0.4) == [0, 0, -1]  # p = q to the last bit and u = 1: nothing is left, p itself serves
    assert verify(p, 0, 1.0, 0.6) == [0, 1, -1]
    assert verify(p, 0, 0.999, 1.0) == [1, 0, 2]
    assert verify(torch.tensor([[0.5, 0.0, 0.5]]), 2, 1e-300, 1e-300) == [0, 1, -1]  # p(x) = 0 is never kept
    assert verify(torch.tensor([[1.0, 0.0, 0.0]]), 1, 1e-300, 1.0)[0] == 0  # nor is what was never proposed
    assert verify(None, -1, 1e-300, 1.0) == [0, 1, -1]  # no token at all


@pytest.mark.parametrize(("top_k", "top_p"), [(0, 1.0), (20, 0.9)])
def test_logits_that_are_not_finite_give_no_token(kernels, random, top_k, top_p):
    logits, nothing = random(1, 5000), torch.zeros(0, dtype=torch.int64)
    for bad in (torch.nan, torch.inf):
        logits[0, 77] = bad
        out = kernels.verify(logits, None, nothing, torch.tensor([0.5], dtype=torch.float64), 1.0, top_k, top_p)
        assert out.tolist() == [0, -1]


def test_nothing_left_of_a_whole_vocabulary(kernels, random):
    """Over several slices of a row, p itself serves where p = q."""
    logits = random(2, 20_000)
    p, draft = kernels.law(logits[:1], 1.0), torch.tensor([int(logits[0].argmin())])
    for u in (0.01, 0.4, 0.99):
        out = kernels.verify(logits, p, draft, torch.tensor([1.0, u], dtype=torch.float64), 1.0)
        assert out.tolist() == [0, reference.pick(p[0], u), -1]


@pytest.mark.parametrize("equal", [4096, 4097])
def test_as_many_equal_logits_as_a_block_holds_and_one_more(kernels, random, equal):
    logits = random(1, 6000).clamp(-2, 2)
    logits[0, -equal:] = 9.0
    for rule in ((0, 0.3), (7, 1.0), (7, 0.5)):
        assert torch.equal(kernels.law(logits, 1.0, *rule) > 0, logits == 9)


def test_a_whole_vocabulary_of_equal_logits(kernels_once):
    """As many of the largest as a slice may have."""
    law = kernels_once.law(torch.zeros(1, 2**20), 1.0, 0, 0.5)
    assert torch.equal(law, torch.full((1, 2**20), 2.0**-20))
    with pytest.raises(RuntimeError, match="at most 2\\^20"):
        kernels_once.law(torch.zeros(1, 2**20 + 1), 1.0)


def test_logits_that_are_not_a_number_make_a_row_that_is_none(kernels, random):
    logits = random(2, 5000)
    logits[1, 4000] = torch.nan
    for rule in ((0, 1.0), (20, 0.9)):
        law = kernels.law(logits, 1.0, *rule)
        assert law[0].sum() > 0.99 and law[1].isnan().all()


def test_greedy(kernels, random):
    logits = random(6, 5000)
    best = logits.argmax(-1)
    nothing = torch.zeros(0, dtype=torch.float64)
    for n in range(6):
        drafts = best[:5].clone()
        if n < 5:
            drafts[n] = (drafts[n] + 1) % 5000
        out = kernels.verify(logits, None, drafts, nothing, 0.0)
        assert out.tolist() == [n, *best[: n + 1].tolist(), *[-1] * (5 - n)]
        assert out.tolist() == verification.verify(logits, None, drafts, nothing, 0.0).tolist()
    assert kernels.verify(logits[:1], None, drafts[:0], nothing, 0.0).tolist() == [0, int(best[0])]
