"""The law of logits, against its definition in f64; and `verify`, which judges by it."""

import pytest
import torch

from acctax import ops
from acctax.decode.acceptance import accept_sampled
from acctax.ops import verification

SIZES = [1, 2, 15, 16, 17, 255, 256, 257, 5000, 49152, 262144]
CUTS = [(1.0, 0, 1.0), (0.7, 0, 1.0), (1.0, 0, 0.95), (0.7, 0, 0.3), (1.7, 0, 1e-6), (1.0, 1, 1.0), (0.7, 50, 1.0),
        (1.7, 20, 0.9), (1.0, 4000, 0.99), (1.0, 10**6, 0.5), (1.0, 0, 0.9999999)]  # fmt: skip


def masses_above(logits, temperature, top_k):
    """The law [vocab] in f64 without top-p, and the mass of the logits above each, for which top-p drops it."""
    x = logits.double() / temperature
    if 0 < top_k < len(x):
        x = x.masked_fill(x < x.topk(top_k).values[-1], -torch.inf)
    p = x.softmax(-1)
    ascending, order = x.sort()
    below = torch.cat([p.new_zeros(1), p[order].cumsum(0)])
    return p, below[-1] - below[torch.searchsorted(ascending, x, right=True)]


@pytest.mark.parametrize(("temperature", "top_k", "top_p"), CUTS)
@pytest.mark.parametrize("n", SIZES)
def test_law_is_its_definition(backend, random, n, temperature, top_k, top_p):
    slack = 3e-5 if backend == "reference" else 1e-6  # torch's softmax sums long rows in f32
    logits = 3 * random(3, n)
    logits[1, 1::3] = -torch.inf
    logits[2] = (4 * logits[2]).round() / 4  # ties
    for row, got in zip(logits, ops.law(logits, temperature, top_k, top_p)):
        p, above = masses_above(row, temperature, top_k)
        kept = got > 0
        assert kept[(p > 0) & (above < top_p - slack)].all()
        assert not kept[(p == 0) | (above > top_p + slack) & (above > 0)].any()
        assert not torch.isin(row[kept], row[~kept]).any()
        exact = p.where(kept, 0)
        assert (got - exact / exact.sum()).abs().sum() / 2 < slack


def test_equal_logits_stay_or_go_together(backend):
    assert ops.law(torch.tensor([1.0, 3.0, 2.0, 2.0, 2.0, 0.0]), 1.0, 2).count_nonzero() == 4
    assert ops.law(torch.tensor([2.0, 1.0, 1.0, 0.0]), 1.0, 0, 0.65).count_nonzero() == 3  # one 1.0 would do
    assert torch.equal(ops.law(torch.zeros(4), 1.0, 0, 0.5), torch.full((4,), 0.25))
    zeros = torch.tensor([-0.0, 0.0, -1.0])
    assert ops.law(zeros, 1.0, 1).tolist() == ops.law(zeros, 1.0, 0, 0.1).tolist() == [0.5, 0.5, 0.0]
    assert torch.equal(ops.law(torch.zeros(2**18), 1.0, 7, 0.01), torch.full((2**18,), 2.0**-18))


def test_of_few_large_and_forbidden_logits(backend):
    forbidden = -torch.inf
    for row in ([5.0], [forbidden, 2.0, forbidden], [0.0, 0.0, 0.0], [1e4, -1e4, 1e4 - 1], [-1e38, 1e38]):
        logits = torch.tensor([row])
        for top_k, top_p in ((0, 1.0), (2, 0.99), (1, 1.0)):
            p, expected = (f(logits, 0.5, top_k, top_p) for f in (ops.law, verification.law))
            torch.testing.assert_close(p, expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize(("top_k", "top_p"), [(0, 1.0), (3, 1.0), (0, 0.9), (3, 0.9), (200, 0.9)])
def test_a_row_that_has_no_law_is_nan_and_leaves_the_others_alone(backend, random, top_k, top_p):
    logits = random(5, 300)
    clean = ops.law(logits, 1.0, top_k, top_p)
    logits[1, 99:] = torch.nan
    logits[2, 0] = torch.inf
    logits[3] = -torch.inf
    p = ops.law(logits, 1.0, top_k, top_p)
    assert p[1:4].isnan().all()
    assert torch.equal(p[[0, 4]], clean[[0, 4]])


@pytest.mark.parametrize("n", [257, 49152])
def test_a_row_is_bitwise_the_same_for_every_M_and_thread_count(backend, threads, random, n):
    logits = 3 * random(7, n)
    for cuts in ((0, 1.0), (0, 0.9), (40, 1.0), (40, 0.9)):
        torch.set_num_threads(1)
        alone = torch.stack([ops.law(row, 0.7, *cuts) for row in logits])
        torch.set_num_threads(threads)
        for M in (1, 2, 3, 7):
            assert torch.equal(ops.law(logits[7 - M :], 0.7, *cuts), alone[-M:]), f"M={M}"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_any_type_shape_and_layout(backend, random, dtype):
    logits = (3 * random(2, 300, 3)).to(dtype).transpose(1, 2)
    p = ops.law(logits, 0.7, 20, 0.9)
    assert p.shape == (2, 3, 300) and p.dtype == torch.float32
    assert torch.equal(p[1, 2], ops.law(logits[1, 2].float().contiguous(), 0.7, 20, 0.9))
    assert ops.law(logits[:0], 0.7, 20, 0.9).shape == (0, 3, 300)


def test_a_law_needs_a_temperature(backend):
    if backend == "reference":
        pytest.skip("plain PyTorch divides by it")
    for temperature in (0.0, -1.0, float("nan")):
        with pytest.raises(RuntimeError, match="has no law"):
            ops.law(torch.zeros(1, 3), temperature)


@pytest.mark.parametrize("one_hot", [False, True])
def test_verify_keeps_and_draws_as_the_cycle_does(backend, random, one_hot):
    g, kept = torch.Generator().manual_seed(0), set()
    for K in (0, 1, 3, 5, 5, 5):
        logits = 4 * random(K + 1, 3000)
        q = ops.law(logits[:K] + 0.3 * random(K, 3000), 0.8, 50, 0.95)
        u = 1 - torch.rand(K + 1, generator=g, dtype=torch.float64)
        drafts = torch.tensor([ops.pick(law, 0.5) for law in q], dtype=torch.int64)
        if one_hot:
            drafts, q = ops.argmax(q), None
        n, token = accept_sampled(ops.law(logits, 0.8, 50, 0.95), q, drafts.tolist(), u.tolist())
        out = ops.verify(logits, q, drafts, u, 0.8, 50, 0.95)
        assert out.tolist() == [n, *drafts[:n].tolist(), token, *[-1] * (K - n)]
        kept.add(n)
    assert len(kept) > 1
