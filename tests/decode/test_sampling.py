"""Temperature, top-k and top-p, against transformers' processors and by their definitions."""

import pytest
import torch
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from acctax.config import Decoding
from acctax.decode.sampling import law

LOGITS = torch.randn(5, 50, generator=torch.Generator().manual_seed(0)) * 3


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.7])
@pytest.mark.parametrize("top_k", [0, 1, 7])
@pytest.mark.parametrize("top_p", [1.0, 0.9, 0.3])
def test_law_equals_transformers(temperature, top_k, top_p):
    expected = TemperatureLogitsWarper(temperature)(None, LOGITS)
    if top_k:
        expected = TopKLogitsWarper(top_k)(None, expected)
    if top_p < 1:
        expected = TopPLogitsWarper(top_p)(None, expected)
    got = law(LOGITS, Decoding("sample", temperature, top_k, top_p))
    torch.testing.assert_close(got, expected.softmax(-1))


def test_ties_of_the_kth_stay():
    p = law(torch.tensor([2.0, 1.0, 1.0, 0.0]), Decoding("sample", 1.0, 2, 1.0))
    assert (p > 0).tolist() == [True, True, True, False]


def test_the_largest_always_stays():
    p = law(torch.tensor([0.0, 1.0, 0.5]), Decoding("sample", 1.0, 0, 1e-6))
    assert p.tolist() == [0.0, 1.0, 0.0]
