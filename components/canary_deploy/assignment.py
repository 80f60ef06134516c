"""Sticky assignment of a unit (a room session, or a viewer in a room) to an arm of the rollout.

A hash and no table: every router instance gives the same answer after a restart. Both arms take the same share `ramp`
from fixed ends of the hash's range, so a growing ramp only ever *adds* units to an arm: nobody flips from canary to
champion.
"""

from enum import StrEnum
from hashlib import sha256

HOLDOUT_SHARE = 0.05  # merchants who never see a canary, so that the sum of many rollouts can be measured


class Arm(StrEnum):
    CANARY = "canary"
    CONTROL = "control"
    """The concurrent control: served by the champion and compared with the canary."""
    OUTSIDE = "outside"
    """Served by the champion, outside the comparison."""


def hash_share(unit: str, salt: str) -> float:
    """First 8 bytes of sha256("salt:unit") as a number in [0, 1), uniform over units."""
    return int.from_bytes(sha256(f"{salt}:{unit}".encode()).digest()[:8], "big") / 2**64


def assign(unit: str, salt: str, ramp: float) -> Arm:
    """The arm of `unit` while each arm takes the share `ramp` of all units.

    `salt` stays the same for the whole rollout and differs between rollouts. A session that runs while the ramp grows
    keeps the arm it started with; that is the router's memory, not this function's.

    Raises:
        ValueError: ramp outside [0, 0.5]; above a half the arms would overlap.
    """
    if not 0.0 <= ramp <= 0.5:
        raise ValueError(f"ramp is {ramp}; allowed: 0 to 0.5 (each arm's share of all units)")
    share = hash_share(unit, salt)
    if share < ramp:
        return Arm.CANARY
    if 0.5 <= share < 0.5 + ramp:
        return Arm.CONTROL
    return Arm.OUTSIDE


def is_held_out(merchant: str, salt: str, share: float = HOLDOUT_SHARE) -> bool:
    """Whether the merchant belongs to the long-term holdout. Use one salt for all rollouts, so that it stays the
    same merchants.
    """
    return hash_share(merchant, salt) < share
