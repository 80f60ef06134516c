"""What was seen of each merchant and has not been examined yet: the very bytes whose digest the queue holds, so that a
version which rested is examined as it was, whatever the merchant writes meanwhile.

One tar file a merchant: at the first look at a thousand merchants, creating their ten thousand files and folders once
more would take most of the time.
"""

import hashlib
import shutil
import tarfile
from pathlib import Path
from typing import IO

from components.avatar.errors import InputError, SystemFault, file_fault
from components.integrations.storage import StoredFile, describe, tree_digest
from pipelines.watch.scan import Source


class Staging:
    def __init__(self, folder: Path) -> None:
        self._kept, self._open = folder / "kept", folder / "open"

    def take(self, source: Source, merchant: str) -> str:
        """Keep what the merchant holds now in place of what was kept; its digest, that of storage.describe.

        Raises SystemFault when it cannot be read now, InputError when it never can.
        """
        self._kept.mkdir(parents=True, exist_ok=True)
        kept = self._kept / f"{merchant}.tar"
        arriving = self._kept / f".{merchant}.new"
        files: list[StoredFile] = []
        try:
            with tarfile.open(arriving, "w") as tar:
                for path, size, content in source.files(merchant):
                    if "\\" in path:
                        raise InputError([file_fault(f"{merchant}/{path}", "a backslash", "a name without one")])
                    hashed = _Hashed(content)
                    entry = tarfile.TarInfo(path)
                    entry.size = size
                    tar.addfile(entry, hashed)  # pyright: ignore[reportArgumentType] - it only calls read
                    files.append(StoredFile(path=path, size=size, sha256=hashed.sha256.hexdigest()))
            if not files:
                raise SystemFault(f"{merchant} went away while it was read")
            arriving.replace(kept)
        except OSError as error:
            where = f": {error.filename}" if error.filename else ""
            raise SystemFault(f"{merchant} cannot be read: {error.strerror or error}{where}") from error
        finally:
            arriving.unlink(missing_ok=True)
        return tree_digest(files)

    def unpacked(self, merchant: str, digest: str) -> Path | None:
        """A folder with the version of that digest, under the merchant's name; None when it is not what was kept (a
        crash came between, a disk lost its last writes).
        """
        folder = self._open / merchant
        shutil.rmtree(folder, ignore_errors=True)
        try:
            with tarfile.open(self._kept / f"{merchant}.tar") as tar:
                tar.extractall(folder, filter="data")
            whole = describe(folder).digest == digest
        except (FileNotFoundError, tarfile.TarError, InputError):
            whole = False
        return folder if whole else None

    def drop(self, merchant: str) -> None:
        """Forget what was kept."""
        (self._kept / f"{merchant}.tar").unlink(missing_ok=True)
        shutil.rmtree(self._open / merchant, ignore_errors=True)


class _Hashed:
    """A file whose bytes are hashed as they are read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.sha256 = file, hashlib.sha256()

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self.sha256.update(data)
        return data
