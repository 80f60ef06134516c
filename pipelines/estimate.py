"""An estimate of a local run's duration: the profile's step times on the reference machine, scaled by a quick
measurement of this one.
"""

import time
from dataclasses import dataclass

REFERENCE_GFLOPS = 840.0
"""What `measure_gflops` gives on the machine on which the profiles' `minutes` were taken (2 cores with AVX512-bf16)."""


@dataclass(frozen=True)
class Estimate:
    minutes: float
    speed: float  # of this machine, 1 = the reference machine


def estimate(minutes: dict[str, float], gflops: float) -> Estimate:
    """Scale the sum of `minutes` by the speed of this machine; the error is easily +-50%, and the caller says that it
    is an estimate.
    """
    speed = gflops / REFERENCE_GFLOPS
    return Estimate(sum(minutes.values()) / speed, speed)


def measure_gflops(seconds: float = 1.0) -> float:
    """Throughput of matrix products in the dtype that training will use, on shapes of a small model (rows x hidden x
    feed-forward).
    """
    import torch

    from components.integrations.hardware import set_threads, training_dtype

    set_threads()
    dtype = training_dtype()
    rows, hidden, inner = 1024, 576, 1536
    a, b = torch.randn(rows, hidden, dtype=dtype), torch.randn(hidden, inner, dtype=dtype)
    for _ in range(3):
        torch.matmul(a, b)
    count, started = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - started) < seconds:
        torch.matmul(a, b)
        count += 1
    return 2 * rows * hidden * inner * count / elapsed / 1e9
