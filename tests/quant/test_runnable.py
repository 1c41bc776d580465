"""A weight is laid out where it is to live, or refused."""

import pytest
import torch

from acctax import ops, quant
from acctax.errors import ConfigError
from acctax.quant.packed import PackedWeight
from acctax.quant.runnable import runnable
from acctax.quant.tiled import TiledWeight


def packed(format: str) -> PackedWeight:
    return quant.get(format).pack(torch.ones(8, 64))


def test_a_weight_goes_to_its_device_as_it_is_where_no_kernels_are_loaded():
    moved = runnable(packed("nvfp4"), "meta")
    assert isinstance(moved, PackedWeight)
    assert moved.codes.is_meta and moved.scales.is_meta and moved.global_scale.is_meta


def test_a_device_with_kernels_lays_it_out_itself(monkeypatch):
    monkeypatch.setattr(ops, "backend", lambda device="cpu": "native")
    laid_out = runnable(packed("bf16"), "meta")
    assert isinstance(laid_out, TiledWeight) and laid_out.codes.is_meta
    assert laid_out.codes.nbytes == 64 * 64 * 2  # one panel of 64 features


@pytest.mark.parametrize("format", ["fp32", "nvfp4_a8"])
def test_a_format_that_no_cuda_kernel_reads_is_refused(monkeypatch, format):
    monkeypatch.setattr(ops, "backend", lambda device="cpu": "native")
    with pytest.raises(ConfigError, match=f"format={format}: no CUDA kernel reads it at 8 x 64.*bf16, fp8"):
        runnable(packed(format), "meta")
