"""argmax and pick: what is chosen from a row of the vocabulary."""

import pytest
import torch

from acctax import ops

SIZES = [1, 5, 16, 255, 256, 257, 49152]


@pytest.mark.parametrize("n", SIZES)
def test_argmax_is_the_first_of_the_largest(backend, threads, random, n):
    logits = random(4, n)
    logits[1] = -logits[1].abs()
    logits[2, n // 3 :] = 7.0  # many of them
    logits[3] = -torch.inf
    found = ops.argmax(logits)
    assert found.dtype == torch.int64
    assert found[:2].tolist() == logits[:2].argmax(-1).tolist()
    assert found[2:].tolist() == [n // 3, 0]


@pytest.mark.parametrize("n", SIZES[1:])
def test_argmax_of_what_is_not_finite(backend, random, n):
    logits = random(3, n)
    logits[0, n - 1] = torch.nan
    logits[1, n // 2] = torch.inf
    logits[2, : n - 1] = -torch.inf
    assert ops.argmax(logits).tolist() == [n - 1, n // 2, n - 1]


def test_argmax_refuses_what_is_no_row_of_logits(backend):
    if backend == "reference":
        pytest.skip("plain PyTorch takes more")
    for bad in (torch.zeros(4), torch.zeros(4, 8).T, torch.zeros(2, 3).bfloat16()):
        with pytest.raises(RuntimeError, match="argmax"):
            ops.argmax(bad)


@pytest.mark.parametrize("n", SIZES)
def test_pick_inverts_the_running_sum(backend, random, n):
    weights = random(n).exp()
    weights[::3] = 0
    if n == 1:
        weights[0] = 2.0
    running = weights.double().cumsum(0)
    drawn = 1 - torch.rand(50, generator=torch.Generator().manual_seed(n), dtype=torch.float64)
    for u in (1e-12, 0.1, 0.5, 0.9, 1.0, *drawn.tolist()):
        i = ops.pick(weights, u)
        assert weights[i] > 0
        goal, slack = u * float(running[-1]), 1e-6 * float(running[-1])
        assert running[i] >= goal - slack
        assert i == 0 or running[i] - weights[i] <= goal + slack


def test_pick_draws_from_the_law(backend):
    weights = torch.tensor([0.0, 0.1, 0.0, 0.4, 0.2, 0.3, 0.0])
    u = (torch.arange(10_000, dtype=torch.float64) + 0.5) / 10_000
    drawn = torch.bincount(torch.tensor([ops.pick(weights, x) for x in u.tolist()]), minlength=7) / 10_000
    assert 0.5 * (drawn - weights).abs().sum() < 1e-3


@pytest.mark.parametrize("weights", [[], [0.0, 0.0], [torch.nan, 0.0], [-1.0, 0.0]])
def test_pick_needs_a_weight_above_zero(backend, weights):
    with pytest.raises(RuntimeError, match="no weight is above 0"):
        ops.pick(torch.tensor(weights), 0.5)
