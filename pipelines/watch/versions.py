"""Accepted versions of every merchant, by content, and which one is served.

    STORE/<digest>/...                the version (content-addressed, shared by merchants that are equal)
    STORE/accepted/<merchant>.json    which one is the last good one: {"merchant", "digest", "uri"}
    STATE/versions/<merchant>/<digest>/<merchant>/   a copy on this machine, under the name that runs show
    STATE/accepted/<merchant>         link to the copy of the last good one: the folder that agent services follow

The queue's database is the truth; both pointers are written from it and can be written again.
"""

import json
import os
import shutil
from pathlib import Path

from components.integrations.objects import S3Settings, open_objects
from components.integrations.storage import Store


class Versions:
    def __init__(self, state: Path, store_uri: str, s3: S3Settings | None = None) -> None:
        self.state = state.absolute()
        self.store = Store(store_uri, s3)
        self._pointers = open_objects(store_uri, s3)

    def keep(self, folder: Path) -> str:
        """Store the version in `folder`; its URI `STORE/<digest>`. Raises SystemFault when the store fails."""
        return self.store.put(folder).uri

    def folder(self, merchant: str, digest: str) -> Path:
        """A version's folder on this machine. Raises SystemFault or InputError when the store has lost it."""
        target = self.state / "versions" / merchant / digest / merchant
        return target if target.is_dir() else self.store.get(digest, target)

    def forget(self, merchant: str, but: set[str]) -> None:
        """Remove this machine's copies of the merchant's versions, except `but`; the store has them all."""
        for copy in (self.state / "versions" / merchant).iterdir():
            if copy.name not in but:
                shutil.rmtree(copy)

    def serve(self, merchant: str, digest: str) -> None:
        """Point at the last good version of a merchant; nothing is written when that is so already."""
        link = self.state / "accepted" / merchant
        target = os.path.relpath(self.folder(merchant, digest), link.parent)
        if link.is_symlink() and os.readlink(link) == target:
            return
        pointer = {"merchant": merchant, "digest": digest, "uri": f"{self.store.uri}/{digest}"}
        self._pointers.write(f"accepted/{merchant}.json", json.dumps(pointer).encode())
        link.parent.mkdir(parents=True, exist_ok=True)
        arriving = link.with_name(f".{merchant}.new")
        arriving.unlink(missing_ok=True)
        arriving.symlink_to(target)
        arriving.replace(link)  # last, and at once: a reader sees the old version or the new one
