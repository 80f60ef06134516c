"""Environment of the processes in which steps run."""

import os
from collections.abc import Mapping
from ctypes.util import find_library

PRELOAD = "LD_PRELOAD"


def step_environment() -> dict[str, str]:
    """Unbuffered lines, no progress bars in a pipe, no telemetry, no look-ups in a hub, a fast allocator."""
    return {
        "PYTHONUNBUFFERED": "1",
        "PYTHONFAULTHANDLER": "1",  # a crash in native code names its place in run.log
        "TQDM_DISABLE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "GX_ANALYTICS_ENABLED": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        **allocator(os.environ),
    }


def allocator(environment: Mapping[str, str]) -> dict[str, str]:
    """What makes a process use tcmalloc, where the system has it and `environment` preloads nothing else.

    A training step on a CPU takes and frees gigabytes. glibc's allocator gives large blocks back to the kernel, which
    clears every page again for the next step; tcmalloc keeps them (`make benchmark-speed` compares).
    """
    library = find_library("tcmalloc_minimal")
    if library is None or PRELOAD in environment:
        return {}
    return {PRELOAD: library, "TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD": str(2**40)}  # its notes on stderr, in bytes
