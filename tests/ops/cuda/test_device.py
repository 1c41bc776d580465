"""What only a device shows: its memory apart from the host's, streams, graphs."""

import pytest
import torch

from acctax import ops
from acctax.quant.panels import lay_out
from tests.ops.cuda.kernels import OnDevice
from tests.ops.packed import random_packed

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_what_an_op_writes_comes_back_from_the_device(random):
    qkv, angles = random(2, 48), random(16, 8)
    keys, values = torch.zeros(1, 1, 16, 16, 1), torch.zeros(1, 16, 16)
    OnDevice("cpu").attend(qkv, None, None, 0.0, angles.cos(), angles.sin(), keys, values, 3, scale=0.25)
    assert torch.equal(values[0, 3:5], qkv[:, 32:])
    assert (keys[0, 0, :, 3:5] != 0).all() and (keys[0, 0, :, 5:] == 0).all()


@needs_gpu
def test_a_pass_as_a_graph_gives_the_bits_of_its_calls(random):
    """On a stream of its own, at a position that moves between replays."""
    ops.load_cuda()
    H, Hkv, D, hidden, rows, vocab = 8, 2, 64, 512, 5, 5000
    stored = random_packed("nvfp4", (H + 2 * Hkv) * D, hidden), random_packed("bf16", vocab, H * D)
    into_qkv, lm_head = (lay_out(weight.to("cuda")) for weight in stored)
    x, norm, angles = random(rows, hidden).bfloat16().cuda(), random(hidden).cuda(), random(400, D // 2).cuda()
    cos, sin, position = angles.cos(), angles.sin(), torch.zeros(1, dtype=torch.int32, device="cuda")
    caches = [torch.zeros(Hkv, 25, D // 2, 16, 2), torch.zeros(Hkv, 400, D)]
    keys, values = (cache.bfloat16().cuda() for cache in caches)
    drafts, u = torch.arange(rows - 1).cuda(), torch.full((rows,), 0.5, dtype=torch.float64).cuda()

    def run() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        qkv = into_qkv.linear(x, norm=norm, eps=1e-5)
        y = ops.attend_at(qkv, None, None, 0.0, cos, sin, keys, values, position, D**-0.5)
        logits = lm_head.linear(y, float_out=True)
        return logits, ops.verify(logits, None, drafts, u, 0.0), ops.verify(logits, None, drafts, u, 0.8, 50, 0.9)

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        run()
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        replayed = run()
    for at in (0, 126, 390):
        position.fill_(at)
        graph.replay()
        torch.cuda.synchronize()
        found = [t.clone() for t in replayed]
        for ours, expected in zip(found, run(), strict=True):
            assert torch.equal(ours, expected)
