"""The durable queue: what was seen of every merchant, and how far each change has come.

    seen -> refused | restored | accepted -> kept | queued -> running -> trained | failed
                                      ^________|            (accepted and queued: superseded by a newer accepted one)

SQLite in WAL mode, one transaction a transition, so that a process that dies leaves each change in exactly one state,
and the next one goes on from there. What a state asks for (a snapshot, a verdict, a run) can always be asked for again.
"""

import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from components.avatar.errors import InputError, SystemFault, file_fault
from components.avatar.harness.schema import Frozen

State = Literal[
    "seen", "refused", "restored", "accepted", "superseded", "kept", "queued", "running", "trained", "failed"
]

NEXT: dict[State, frozenset[State]] = {
    "seen": frozenset({"refused", "restored", "accepted"}),
    "accepted": frozenset({"kept", "queued", "superseded"}),
    "queued": frozenset({"running", "accepted", "superseded"}),
    "running": frozenset({"trained", "failed"}),
}
ENDED: frozenset[State] = frozenset({"refused", "restored", "superseded", "kept", "trained", "failed"})

_VERSION = 1
_SCHEMA = """
CREATE TABLE merchants (name TEXT PRIMARY KEY, fingerprint TEXT NOT NULL, digest TEXT NOT NULL, dirty INTEGER NOT NULL);
CREATE TABLE changes (
  id INTEGER PRIMARY KEY AUTOINCREMENT, merchant TEXT NOT NULL, digest TEXT NOT NULL, state TEXT NOT NULL,
  seen_at REAL NOT NULL, changed_at REAL NOT NULL, accepted INTEGER NOT NULL DEFAULT 0, facts TEXT NOT NULL);
CREATE INDEX of_merchant ON changes (merchant, id);
CREATE INDEX in_state ON changes (state);
CREATE TABLE history (change INTEGER NOT NULL REFERENCES changes (id), at REAL NOT NULL, state TEXT NOT NULL);
CREATE INDEX of_change ON history (change);
CREATE TABLE meta (token TEXT NOT NULL);
"""


class Described(Frozen):
    """One typed change of the harness or its data, in words."""

    text: str
    effect: Literal["surface", "behaviour", "data"]


class Verdict(Frozen):
    """What the harness gate found; `quality` is None where the champion had not to be played."""

    retrain: bool
    why: str
    champion: str | None
    asked: str = ""  # digest of the gate's settings and seed
    quality: float | None = None
    cases: int = 0
    seconds: float = 0.0
    reused: bool = False  # the same content was measured with the same champion before


class Typical(Frozen):
    """Median duration of `runs` earlier, whole runs of the profile, as measured; no runs, no duration."""

    minutes: float | None
    runs: int


class RunFacts(Frozen):
    where: str
    why: str = ""
    seconds: float | None = None
    model_version: str | None = None


class Facts(Frozen):
    """What is known of a change so far; `waiting` says what it waits for when that is not in order."""

    faults: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    compared_with: str = ""
    changes: tuple[Described, ...] = ()
    uri: str = ""
    harness_digest: str = ""
    meaning: str = ""  # digest of the merchant as loaded: the same for files that differ in form only
    verdict: Verdict | None = None
    typical: Typical | None = None
    run: RunFacts | None = None
    waiting: str = ""


@dataclass(frozen=True)
class Change:
    """One edit of one merchant. `digest` is that of the folder's content; times are seconds since the epoch."""

    id: int
    merchant: str
    digest: str
    state: State
    seen_at: float
    changed_at: float  # when it came into its state
    accepted: bool
    facts: Facts


class Queue:
    """Raises InputError for a file of another version, SystemFault when the disk fails."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._db = sqlite3.connect(path, isolation_level=None, timeout=10)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            if version == 0:
                self._create()
            elif version != _VERSION:
                raise InputError([file_fault(path, f"format {version}", f"format {_VERSION}: another --state folder")])
            self.token: str = self._db.execute("SELECT token FROM meta").fetchone()[0]
        except sqlite3.DatabaseError as error:
            raise InputError([file_fault(path, str(error), "a queue written by pipelines.watch")]) from error

    def _create(self) -> None:
        with self._transaction():
            for statement in _SCHEMA.split(";"):
                self._db.execute(statement)
            self._db.execute("INSERT INTO meta VALUES (?)", (secrets.token_hex(3),))
            self._db.execute(f"PRAGMA user_version = {_VERSION}")

    def close(self) -> None:
        self._db.close()

    def fingerprints(self) -> dict[str, str]:
        return dict(self._db.execute("SELECT name, fingerprint FROM merchants"))

    def observe(self, looks: Sequence[tuple[str, str, str]], now: float) -> list[str]:
        """Record (merchant, fingerprint, digest) of one look, in one transaction; the merchants whose content changed.

        A change on the way from one settled content to the next is one change: only the last content counts, and one
        that comes back to where it started is none.
        """
        changed = []
        with self._transaction():
            for merchant, fingerprint, digest in looks:
                row = self._db.execute("SELECT digest FROM merchants WHERE name = ?", (merchant,)).fetchone()
                self._db.execute(
                    "INSERT INTO merchants VALUES (?, ?, ?, 0) ON CONFLICT (name) DO UPDATE "
                    "SET fingerprint = excluded.fingerprint, digest = excluded.digest",
                    (merchant, fingerprint, digest),
                )
                if row is None or row[0] != digest:
                    self._see(merchant, digest, now)
                    changed.append(merchant)
        return changed

    def _see(self, merchant: str, digest: str, now: float) -> None:
        seen, settled = None, None
        for change in reversed(self.of(merchant)):
            if change.state == "seen":
                seen = change
            else:
                settled = change
                break
        if settled is not None and settled.digest == digest:
            if seen is not None:
                self._db.execute("DELETE FROM history WHERE change = ?", (seen.id,))
                self._db.execute("DELETE FROM changes WHERE id = ?", (seen.id,))
        elif seen is not None:
            self._db.execute("UPDATE changes SET digest = ?, changed_at = ? WHERE id = ?", (digest, now, seen.id))
        else:
            cursor = self._db.execute(
                "INSERT INTO changes (merchant, digest, state, seen_at, changed_at, facts) "
                "VALUES (?, ?, 'seen', ?, ?, ?)",
                (merchant, digest, now, now, Facts().model_dump_json()),
            )
            self._db.execute("INSERT INTO history VALUES (?, ?, 'seen')", (cursor.lastrowid, now))

    def move(self, change: Change, to: State, now: float, **facts: object) -> Change:
        """One transition in one transaction; `facts` are added to the change's.

        Accepting a version supersedes the merchant's older ones that nobody trains on yet. Raises ValueError for a
        transition that the queue has not, SystemFault when the change is in another state by now.
        """
        if to not in NEXT.get(change.state, ()):
            raise ValueError(f"no way from {change.state} to {to}")
        known = Facts.model_validate(change.facts.model_dump() | {"waiting": ""} | facts)
        with self._transaction():
            cursor = self._db.execute(
                "UPDATE changes SET state = ?, changed_at = ?, facts = ?, accepted = ? WHERE id = ? AND state = ?",
                (to, now, known.model_dump_json(), change.accepted or to == "accepted", change.id,
                 change.state),
            )  # fmt: skip
            if cursor.rowcount != 1:
                raise SystemFault(
                    f"change {change.id} of {change.merchant} is not {change.state} any more: two watchers?"
                )
            self._db.execute("INSERT INTO history VALUES (?, ?, ?)", (change.id, now, to))
            if to == "accepted" and change.state == "seen":
                self._supersede(change, now)
            self._db.execute("UPDATE merchants SET dirty = 1 WHERE name = ?", (change.merchant,))
        return self.get(change.id)

    def _supersede(self, newest: Change, now: float) -> None:
        for older in self.of(newest.merchant):
            if older.id < newest.id and older.state in ("accepted", "queued"):
                self._db.execute(
                    "UPDATE changes SET state = 'superseded', changed_at = ? WHERE id = ?", (now, older.id)
                )
                self._db.execute("INSERT INTO history VALUES (?, ?, 'superseded')", (older.id, now))

    def note(self, change: Change, waiting: str) -> None:
        """Say what a change waits for, without moving it."""
        facts = change.facts.model_copy(update={"waiting": waiting})
        with self._transaction():
            self._db.execute("UPDATE changes SET facts = ? WHERE id = ?", (facts.model_dump_json(), change.id))
            self._db.execute("UPDATE merchants SET dirty = 1 WHERE name = ?", (change.merchant,))

    def get(self, change_id: int) -> Change:
        [change] = self._select("WHERE id = ?", change_id)
        return change

    def of(self, merchant: str) -> list[Change]:
        """Every change of a merchant, oldest first."""
        return self._select("WHERE merchant = ? ORDER BY id", merchant)

    def in_state(self, state: State) -> list[Change]:
        """Oldest first; among accepted ones, edits go before merchants that are seen for the first time."""
        return self._select("WHERE state = ? ORDER BY json_extract(facts, '$.compared_with') = '', id", state)

    def last_accepted(self, merchant: str) -> Change | None:
        """The last good version of a merchant, whatever became of it since."""
        found = self._select("WHERE merchant = ? AND accepted ORDER BY id DESC LIMIT 1", merchant)
        return found[0] if found else None

    def accepted_now(self) -> list[Change]:
        """The last good version of every merchant."""
        return self._select("WHERE id IN (SELECT max(id) FROM changes WHERE accepted GROUP BY merchant) ORDER BY id")

    def last_run_ended(self) -> float:
        """When a run ended last; 0 when none has."""
        query = "SELECT coalesce(max(at), 0) FROM history WHERE state IN ('trained', 'failed')"
        return self._db.execute(query).fetchone()[0]

    def history(self, change: Change) -> list[tuple[float, State]]:
        return self._db.execute(
            "SELECT at, state FROM history WHERE change = ? ORDER BY rowid", (change.id,)
        ).fetchall()

    def merchants(self) -> list[str]:
        return [name for (name,) in self._db.execute("SELECT name FROM merchants ORDER BY name")]

    def dirty(self) -> list[str]:
        """Merchants whose report is older than what is known of them."""
        return [name for (name,) in self._db.execute("SELECT name FROM merchants WHERE dirty ORDER BY name")]

    def reported(self, merchants: Sequence[str]) -> None:
        with self._transaction():
            self._db.executemany("UPDATE merchants SET dirty = 0 WHERE name = ?", [(name,) for name in merchants])

    def _select(self, where: str, *values: object) -> list[Change]:
        columns = "id, merchant, digest, state, seen_at, changed_at, accepted, facts"
        rows = self._db.execute(f"SELECT {columns} FROM changes {where}", values)
        return [
            Change(
                number, merchant, digest, state, seen_at, changed_at, bool(accepted), Facts.model_validate_json(facts)
            )
            for number, merchant, digest, state, seen_at, changed_at, accepted, facts in rows
        ]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
        except sqlite3.OperationalError as error:  # a full or read-only disk, a lock that is not given back
            raise SystemFault(f"{self.path}: {error}") from error
