"""The plain ops make no tensor on another device than their arguments': on "meta", a mixture would raise."""

import pytest
import torch

from acctax.ops import reference, verification
from tests.ops import packed


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def test_linear(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(reference._unpack, "bf16", packed.unpack("bf16"))
    x, codes = meta(3, 8, dtype=torch.bfloat16), meta(5, 8, dtype=torch.bfloat16)
    y = reference.linear(x, codes, None, None, "bf16", 0, meta(5), meta(3, 5), True, meta(8), 1e-5)
    assert y.is_meta and y.shape == (3, 5) and y.dtype == torch.float32


def test_attend():
    caches = meta(2, 2, 8, 16, 2, dtype=torch.bfloat16), meta(2, 32, 16, dtype=torch.bfloat16)
    qkv, table = meta(3, (4 + 2 * 2) * 16, dtype=torch.bfloat16), meta(32, 8)
    y = reference.attend(qkv, meta(16), meta(16), 1e-6, table, table, *caches, 7, 0.25, 5)
    assert y.is_meta and y.shape == (3, 64) and y.dtype == torch.bfloat16


def test_of_logits():
    assert reference.argmax(meta(3, 50)).is_meta
    assert verification.law(meta(3, 50), 0.7, 5, 0.9).is_meta
