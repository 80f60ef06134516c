"""Agreement of two judges on nominal scores: share, Cohen's kappa, confusion table."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Agreement:
    """`table[first, second]` counts the cases; `kappa` is NaN when both judges give one score only."""

    n: int
    share: float
    kappa: float
    table: dict[tuple[float, float], int]


def agreement(first: Sequence[float], second: Sequence[float]) -> Agreement:
    """kappa = (p_o - p_e) / (1 - p_e) (Cohen 1960, Educ. Psychol. Meas. 20). Raises ValueError without pairs."""
    if len(first) != len(second) or not first:
        raise ValueError(f"need pairs, got {len(first)} and {len(second)}")
    n = len(first)
    table = Counter(zip(map(float, first), map(float, second), strict=True))
    share = sum(count for (a, b), count in table.items() if a == b) / n
    rows, columns = Counter(map(float, first)), Counter(map(float, second))
    chance = sum(rows[score] * columns[score] for score in rows) / n**2
    kappa = (share - chance) / (1 - chance) if chance < 1 else float("nan")
    return Agreement(n, share, kappa, dict(table))
