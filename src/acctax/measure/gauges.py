"""What a measurement took of the machine besides time: memory, and energy where a GPU's driver counts it."""

import resource
from functools import cache

import torch


def forget_memory_peak(device: str) -> None:
    """On a GPU the peak begins anew; a process keeps its own."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()


def memory_peak(device: str) -> int:
    """Bytes: of the GPU's memory since it was forgotten, of the process's on a CPU."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def joules(device: torch.device) -> float | None:
    """What the GPU has drawn since its driver was loaded; None where nothing counts it."""
    if device.type != "cuda" or (counter := _energy_counter()) is None:
        return None
    nvml, handle = counter
    return nvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1e3


@cache
def _energy_counter():
    """NVML and this process's GPU, which NVML may count otherwise than CUDA does."""
    try:
        import pynvml

        pynvml.nvmlInit()
        gpu = torch.cuda.get_device_properties(torch.cuda.current_device())
        handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{gpu.uuid}")
        pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    except Exception:  # no such package, no such library, or a GPU that does not count: all mean that there is none
        return None
    return pynvml, handle
