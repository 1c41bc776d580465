"""Our decoders, and NF4's encoder, against the peers' own code."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from acctax import quant


def gaussian(*shape, sigma=0.02):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)) * sigma


def ggml_nibbles(codes, block):
    """Our bytes [N, K / 2], neighbours in a byte -> ggml's, elements j and j + block / 2 in a byte."""
    codes = codes.numpy()
    elements = np.stack([codes & 15, codes >> 4], axis=-1).reshape(-1, 2, block // 2)
    return elements[:, 0] | elements[:, 1] << 4  # [blocks, block / 2]


def test_nvfp4_decodes_as_gguf_does():
    gguf = pytest.importorskip("gguf")
    packed = quant.get("nvfp4").pack(gaussian(64, 576))
    # super-blocks of 64: four scales, then four times eight bytes. The global scale is not part of them.
    scales = packed.scales.view(torch.uint8).numpy().reshape(-1, 4)
    blocks = np.concatenate([scales, ggml_nibbles(packed.codes, 16).reshape(-1, 32)], axis=1)
    theirs = gguf.dequantize(blocks.reshape(64, -1), gguf.GGMLQuantizationType.NVFP4)
    ours = replace(packed, global_scale=torch.tensor(1.0)).unpack()
    assert np.array_equal(ours.numpy(), theirs)


def test_mxfp4_decodes_as_gguf_does():
    gguf = pytest.importorskip("gguf")
    packed = quant.get("mxfp4").pack(gaussian(64, 576))
    blocks = np.concatenate([packed.scales.numpy().reshape(-1, 1), ggml_nibbles(packed.codes, 32)], axis=1)
    theirs = gguf.dequantize(blocks.reshape(64, -1), gguf.GGMLQuantizationType.MXFP4)
    assert np.array_equal(packed.unpack().numpy(), theirs)


@pytest.mark.parametrize("shape", [(64, 576), (48, 100), (3, 86)])
def test_nf4_is_bitsandbytes_nf4(shape):
    functional = pytest.importorskip("bitsandbytes").functional
    weight = gaussian(*shape)
    ours = quant.get("nf4").pack(weight)
    codes, state = functional.quantize_4bit(weight, blocksize=64, quant_type="nf4")
    assert torch.equal(ours.codes, codes.flatten())
    assert torch.equal(ours.scales, state.absmax)
    assert torch.equal(ours.unpack(), functional.dequantize_4bit(codes, state))
