"""Steps keep the memory that they free: counted in page faults, which do not depend on how busy the machine is."""

import os
import subprocess
import sys
from ctypes.util import find_library

import pytest

from pipelines import environment
from pipelines.environment import PRELOAD, allocator, step_environment

_FAULTS = """
import resource, torch
torch.ones(2**24)  # 64 MiB
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(8):
    torch.ones(2**24)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _faults(change: dict[str, str]) -> int:
    inherited = {name: value for name, value in os.environ.items() if name != PRELOAD}
    done = subprocess.run(
        [sys.executable, "-c", _FAULTS], env=inherited | change, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return int(done.stdout)


def test_freed_memory_is_kept():
    if find_library("tcmalloc_minimal") is None:
        pytest.skip("Debian's libtcmalloc-minimal4 is not installed")
    assert _faults(allocator({})) < _faults({}) / 8


def test_another_preloaded_library_and_a_system_without_tcmalloc_stay_as_they_are(monkeypatch):
    assert allocator({PRELOAD: "libother.so"}) == {}
    monkeypatch.setattr(environment, "find_library", lambda name: None)
    assert allocator({}) == {}
    assert PRELOAD not in step_environment()
