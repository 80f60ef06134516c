"""What this machine can do: measured once, never configured."""

import os
import resource
import time
from functools import cache

import torch

BF16_SPEEDUP = 1.3  # bf16 must win by this much to be worth its rounding
_SHAPE = (2048, 576, 1536)  # rows of a small training batch x one MLP projection of a 135M model


def usable_cores() -> int:
    """Cores this process may run on: its affinity, cut by the cgroup v2 quota of a container."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:
            quota, period = file.read().split()
        if quota != "max":
            cores = min(cores, max(1, int(quota) // int(period)))
    except (OSError, ValueError):
        pass  # no cgroup v2 quota to respect
    return cores


def set_threads(count: int | None = None) -> int:
    """Give torch `count` threads (default: the usable cores). Inside a container torch sees the host's cores and would
    oversubscribe."""
    threads = count or usable_cores()
    torch.set_num_threads(threads)
    return threads


def peak_memory_gib() -> float:
    """Most resident memory that this process, or one of its children that have ended, ever had; in GiB (Linux)."""
    used = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return max(used) / 2**20  # ru_maxrss is in KiB


def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@cache
def training_dtype() -> torch.dtype:
    """bfloat16 where autocast to it pays, else float32.

    On a GPU: bfloat16 if it is supported. On a CPU: one forward-and-backward-sized product is timed in both; without
    AMX or AVX512-bf16 the product in bfloat16 is emulated and slower. Takes about 0.2 s, once a process.
    """
    if torch.cuda.is_available():
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32
    seconds = {dtype: _matmul_seconds(dtype) for dtype in (torch.float32, torch.bfloat16)}
    return torch.bfloat16 if seconds[torch.float32] > BF16_SPEEDUP * seconds[torch.bfloat16] else torch.float32


def _matmul_seconds(dtype: torch.dtype, repeats: int = 5) -> float:
    """Best of `repeats` timings: the minimum is what the machine can do when nothing else runs."""
    rows, inner, columns = _SHAPE
    left, right = torch.ones(rows, inner, dtype=dtype), torch.ones(columns, inner, dtype=dtype)
    torch.nn.functional.linear(left, right)
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        torch.nn.functional.linear(left, right)
        best = min(best, time.perf_counter() - start)
    return best
