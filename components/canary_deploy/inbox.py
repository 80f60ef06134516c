"""Webhook deliveries that were received: on disk before the sender is thanked, and refused when they come again.

A delivery is a hint to look at the registry, which is the truth (reconciler.py); so the worker needs to know only that
something waits.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from components.avatar.errors import SystemFault

KEEP_S = 86_400.0
"""How long ids are remembered. Longer than the time window of the receiver: an older copy is refused by its time."""

_TABLE = """CREATE TABLE IF NOT EXISTS deliveries (
    id TEXT PRIMARY KEY, received REAL NOT NULL, event TEXT NOT NULL, alias TEXT NOT NULL, version TEXT NOT NULL,
    sent REAL NOT NULL, done REAL)"""


@dataclass(frozen=True)
class Delivery:
    """A signed message of MLflow: alias `alias` was created (with `version`) or deleted (`version` is "")."""

    id: str
    event: str
    """`created` or `deleted`."""
    alias: str
    version: str
    sent: float
    """The server's time of the event, seconds since 1970."""
    received: float
    """Our time, seconds since 1970."""


class Inbox:
    """A table in an sqlite file. Safe for several threads and processes. Raises SystemFault when the disk fails."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._open() as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute(_TABLE)

    def put(self, delivery: Delivery) -> bool:
        """Store a delivery; False if its id was received before. On disk when this returns."""
        row = (delivery.id, delivery.received, delivery.event, delivery.alias, delivery.version, delivery.sent)
        with self._open() as db:
            db.execute("DELETE FROM deliveries WHERE received < ? AND done NOT NULL", (delivery.received - KEEP_S,))
            return db.execute("INSERT OR IGNORE INTO deliveries VALUES (?, ?, ?, ?, ?, ?, NULL)", row).rowcount == 1

    def waiting(self) -> list[Delivery]:
        """What is not worked off yet, oldest first."""
        with self._open() as db:
            rows = db.execute(
                "SELECT id, event, alias, version, sent, received FROM deliveries WHERE done IS NULL ORDER BY received"
            ).fetchall()
        return [Delivery(*row) for row in rows]

    def done(self, deliveries: Sequence[Delivery], at: float) -> None:
        with self._open() as db:
            db.executemany("UPDATE deliveries SET done = ? WHERE id = ?", [(at, d.id) for d in deliveries])

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection of its own for each call: sqlite's may not change threads."""
        try:
            db = sqlite3.connect(self.path, timeout=10.0)
            try:
                db.execute("PRAGMA synchronous = FULL")
                with db:
                    yield db
            finally:
                db.close()
        except sqlite3.Error as error:
            raise SystemFault(f"{self.path}: {error}") from error
