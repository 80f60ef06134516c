import os

HUGE_PAGES = "THP_MEM_ALLOC_ENABLE"
"""torch reads this at its first allocation, which importing transformers already makes. A training step takes gigabytes
from the kernel and gives them back; in pages of 4 KiB that is up to half of its time (`make benchmark-speed`)."""

os.environ.setdefault(HUGE_PAGES, "1")
