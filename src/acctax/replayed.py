"""What a GPU does otherwise than a CPU: it replays what it was shown once, and has a clock of its own."""

from collections.abc import Callable
from time import perf_counter

import torch
from torch import Tensor

Mark = float | torch.cuda.Event


class Recorder:
    """Steps on a device, recorded as CUDA graphs that share their memory; elsewhere a step is simply called.

    What outlives a step is kept at addresses that were there before it: whatever else it computes, another step may
    overwrite.
    """

    def __init__(self, device: torch.device):
        self.device, self.on_gpu = device, device.type == "cuda"
        self.pool = torch.cuda.graph_pool_handle() if self.on_gpu else None

    def record(self, step: Callable[[], None]) -> Callable[[], None]:
        """On a GPU the step was run once then, so that what is made on first use is there: undo what it did."""
        if not self.on_gpu:
            return step
        with torch.cuda.device(self.device):
            aside = torch.cuda.Stream()
            aside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(aside):
                step()
            aside.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self.pool):
                step()
        return graph.replay

    def host_memory(self, size: int, dtype: torch.dtype) -> Tensor:
        """[size], from and to which copies do not wait."""
        return torch.zeros(size, dtype=dtype, pin_memory=self.on_gpu)

    def mark(self) -> Mark:
        if not self.on_gpu:
            return perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def wait(self) -> None:
        if self.on_gpu:
            torch.cuda.current_stream(self.device).synchronize()


def seconds(start: Mark, end: Mark) -> float:
    """Between two marks that the device has passed."""
    return end - start if isinstance(start, float) else start.elapsed_time(end) / 1e3
