"""Durable appending to an event log: a reply is acknowledged only after its exposure is on disk."""

import asyncio
import os
from pathlib import Path


class EventWriter:
    """Appends lines to a file; whoever waits while the disk is busy shares the next fsync (group commit).

    A torn last line of an earlier crash was never acknowledged and is cut off at the start.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(path, "ab+")
        self._cut_torn_line()
        self._waiting: list[tuple[bytes, asyncio.Future[None]]] = []
        self._flusher: asyncio.Task[None] | None = None

    async def write(self, lines: list[bytes]) -> None:
        """Append complete lines (without their line ends); on disk when this returns. Raises OSError when the disk
        refuses."""
        if not lines:
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((b"".join(line + b"\n" for line in lines), done))
        if self._flusher is None or self._flusher.done():
            self._flusher = asyncio.create_task(self._flush())
        await done

    def close(self) -> None:
        self._file.close()

    async def _flush(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            try:
                await asyncio.to_thread(self._sync, b"".join(data for data, _ in batch))
            except OSError as error:
                outcome: OSError | None = error
            else:
                outcome = None
            for _, done in batch:
                if not done.cancelled():
                    done.set_exception(outcome) if outcome else done.set_result(None)

    def _sync(self, data: bytes) -> None:
        self._file.write(data)
        self._file.flush()
        os.fsync(self._file.fileno())

    def _cut_torn_line(self) -> None:
        size = self._file.seek(0, os.SEEK_END)
        end = size
        while end:
            start = max(0, end - 65536)
            self._file.seek(start)
            newline = self._file.read(end - start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        if end != size:
            self._file.truncate(end)
