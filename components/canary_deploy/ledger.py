"""The decision ledger: append-only JSON lines, each chained to the one before by its hash.

An entry holds the whole evidence and configuration of a decision, so `replay` needs nothing else. It costs about 0.3
KB a room; a rollout of 400 rooms an arm writes about 250 KB a decision.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from components.avatar.errors import Fault, InputError
from components.canary_deploy.config import CanaryConfig
from components.canary_deploy.decision import Decision, Verdict, decide
from components.canary_deploy.evidence import Evidence

FIRST = "0" * 64  # `previous` of the first entry


@dataclass(frozen=True)
class Entry:
    """One line of the ledger. `kind` is `decision`, `cleared` (a person allows a rolled-back release again), or one of
    the promotion controller's (promotion_state.py).
    """

    number: int
    kind: str
    at: float
    previous: str
    body: dict
    hash: str

    def digest(self) -> str:
        """The hash that the entry must have."""
        content = {
            "number": self.number,
            "kind": self.kind,
            "at": self.at,
            "previous": self.previous,
            "body": self.body,
        }
        return sha256(_canonical(content).encode()).hexdigest()


@dataclass(frozen=True)
class Replayed:
    """A recorded decision and the one that its evidence gives today."""

    number: int
    recorded: dict
    computed: dict

    @property
    def same(self) -> bool:
        return self.recorded == self.computed


def _canonical(data: dict) -> str:
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


class Ledger:
    """A ledger file. One writer at a time (held by a file lock during `append`), any number of readers."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def append(self, evidence: Evidence, config: CanaryConfig, decision: Decision) -> Entry:
        """Record a decision; on disk (fsync) when this returns, so traffic may be changed afterwards, never before."""
        body = {
            "rollout": evidence.state.rollout,
            "canary_release": evidence.state.canary_release,
            "decision": decision.to_json(),
            "config": config.model_dump(mode="json"),
            "evidence": evidence.to_json(),
        }
        return self.record("decision", evidence.state.now, body)

    def clear(self, canary_release: str, by: str, why: str, at: float) -> Entry:
        """Allow a rolled-back release to be tried again. A person's act: `by` names them."""
        return self.record("cleared", at, {"canary_release": canary_release, "by": by, "why": why})

    def entries(self) -> Iterator[Entry]:
        """All entries, oldest first; empty when there is no file yet.

        Raises:
            InputError: a line is no entry at all (`verify` says more). A torn last line, from a crash while writing,
                is skipped.
        """
        if not self.path.exists():
            return
        with open(self.path, "rb") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.endswith(b"\n"):
                    return
                try:
                    yield Entry(**json.loads(line))
                except (ValueError, TypeError) as error:
                    fault = Fault(str(self.path), f"line {number}", str(error), "a ledger entry")
                    raise InputError([fault]) from error

    def looks(self, rollout: str) -> tuple[float, ...]:
        """Information fractions of the looks a rollout has taken: goes into `RolloutState.looks`."""
        taken = (
            e.body["decision"]["look"] for e in self.entries() if e.kind == "decision" and e.body["rollout"] == rollout
        )
        return tuple(look for look in taken if look is not None)

    def refusal(self, canary_release: str) -> str | None:
        """Why a release may not be rolled out: it was rolled back and nobody cleared it since. None: it may."""
        why = None
        for entry in self.entries():
            if entry.body.get("canary_release") != canary_release:
                continue
            if entry.kind == "cleared":
                why = None
            elif entry.kind == "decision" and entry.body["decision"]["verdict"] == Verdict.ROLLBACK:
                why = f"rolled back by entry {entry.number}: {entry.body['decision']['why']}"
        return why

    def verify(self) -> list[str]:
        """What is wrong with the chain; empty when it is whole. A cut-off end shows only against a hash kept
        elsewhere (`head`).
        """
        problems, previous = [], FIRST
        try:
            for index, entry in enumerate(self.entries()):
                if entry.number != index:
                    problems.append(f"entry {index} is numbered {entry.number}: lines are missing, added or moved")
                if entry.previous != previous:
                    problems.append(f"entry {index} does not follow the one before it")
                if entry.hash != entry.digest():
                    problems.append(f"entry {index} was changed after it was written")
                previous = entry.hash
        except InputError as error:
            problems.append(str(error.faults[0]))
        return problems

    def head(self) -> str:
        """Hash of the last entry. Keep it elsewhere (an MLflow tag, a log line) to notice a truncated ledger."""
        last = FIRST
        for entry in self.entries():
            last = entry.hash
        return last

    def replay(self) -> list[Replayed]:
        """Decide again from every entry's own evidence and configuration."""
        found = []
        for entry in self.entries():
            if entry.kind == "decision":
                evidence = Evidence.from_json(entry.body["evidence"])
                config = CanaryConfig.model_validate(entry.body["config"])
                found.append(Replayed(entry.number, entry.body["decision"], decide(evidence, config).to_json()))
        return found

    def record(self, kind: str, at: float, body: dict) -> Entry:
        """Append an entry of any kind; on disk when this returns. Raises ValueError for NaN."""
        body = json.loads(_canonical(body))  # what a reader will see; also refuses NaN before anything is written
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "ab+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            number, previous = self._tail(file)
            draft = Entry(number, kind, at, previous, body, "")
            entry = Entry(number, kind, at, previous, body, draft.digest())
            file.write((_canonical(vars(entry)) + "\n").encode())
            file.flush()
            os.fsync(file.fileno())
        return entry

    def _tail(self, file) -> tuple[int, str]:
        """Number of the next entry and hash of the last one. A torn last line was never acknowledged: it is cut off."""
        file.seek(0)
        number, previous, end = 0, FIRST, 0
        for line in file:
            if not line.endswith(b"\n"):
                file.truncate(end)
                break
            end += len(line)
            number += 1
            last = line
        if number:
            previous = json.loads(last)["hash"]
        return number, previous
