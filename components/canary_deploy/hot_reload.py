"""The merchant's folder as it is now. A good edit takes effect within half a second; a bad one leaves the last good
state in place."""

import time
from collections.abc import Callable
from pathlib import Path

from components.avatar.errors import InputError
from components.avatar.simulator.merchant import Merchant, load_merchant

CHECK_S = 0.5  # between two looks at the folder: a look costs one stat for each file


class MerchantWatch:
    """`current()` gives the merchant to answer with. Raises InputError at the start if the folder is bad from the
    beginning."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.folder = folder
        self.error: str | None = None
        """What is wrong with the folder's present content; None: it is what `current` gives."""
        self.reloads = 0
        self._clock = clock
        self._seen = _fingerprint(folder)
        self._checked = clock()
        self._merchant = load_merchant(folder)

    def current(self) -> Merchant:
        now = self._clock()
        if now - self._checked >= CHECK_S:
            self._checked = now
            self._look()
        return self._merchant

    def _look(self) -> None:
        seen = _fingerprint(self.folder)
        if seen == self._seen:
            return
        try:
            merchant = load_merchant(self.folder)
        except InputError as error:
            self.error = str(error)
        else:
            self.error = None
            if merchant.digest != self._merchant.digest:
                self._merchant = merchant
                self.reloads += 1
        self._seen = seen  # taken before loading: an edit during the load shows at the next look


def _fingerprint(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Names, sizes and times of all files: cheap, and different after any edit that an editor or `cp` makes."""
    found = []
    for path in sorted(folder.rglob("*")):
        try:
            stat = path.stat()
        except OSError:  # removed since it was listed
            continue
        found.append((str(path), stat.st_size, stat.st_mtime_ns))
    return tuple(found)
