"""Notes of which windows on a server a task has, for the next task of this host in case it is killed.

A note is a file in the host's directory for temporary files, named by the process. Whoever finds that the
process is gone takes the note over, by renaming it, and removes the windows: so one does it, and if it is
killed too, the note is there still. Nothing is looked for on the server while there is no such note.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from mta.durability.coding import decode_root
from mta.durability.operations import remove
from mta.durability.owners import surely_dead, this_process
from mta.errors import ManifestCorrupt, WindowNotFound
from stores import Store

PREFIX = "mta-windows"

#: Notes that one task looks after, each of which costs a listing or two of the server's keys.
MOST = 4

#: Seconds after which a note that nobody could use is thrown away; `mta gc` does without.
OLD = 86_400.0


class Note:
    """That windows whose names begin so are on a server, until it is removed."""

    def __init__(self, url: str, name: str) -> None:
        self._path = _new_path()
        file = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(file, "w") as note:
            json.dump({"store": url, "name": name}, note)

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)


def sweep(store: Store, url: str) -> list[str]:
    """Removes the windows of killed tasks of this host from a server; returns their names."""
    swept: list[str] = []
    taken = 0
    for path in sorted(left_by_killed(_directory(), PREFIX)):
        if taken == MOST:
            break
        name = _noted(path, url)
        if name is None:
            continue
        mine = _new_path()
        try:
            path.rename(mine)
        except OSError:
            continue  # another task has it
        taken += 1
        swept += _removed(store, f"{name}/")
        mine.unlink(missing_ok=True)
    return swept


def _removed(store: Store, prefix: str) -> list[str]:
    gone = []
    for name in sorted(set(store.list_roots(prefix))):
        with suppress(ManifestCorrupt, WindowNotFound):
            found = store.read_root(name)
            root = None if found is None else decode_root(name, found[0])
            if root is not None and surely_dead(root.owner) and not root.retained and not root.attempts:
                remove(store, name)
                gone.append(name)
    return gone


def _noted(path: Path, url: str) -> str | None:
    """The name in a note, if the note is about this server, and from a process of this user."""
    try:
        status = path.lstat()
        if status.st_uid != os.getuid():
            return None
        note = json.loads(path.read_text())
        if note["store"] == url:
            return str(note["name"])
        if status.st_mtime < time.time() - OLD:
            path.unlink()
    except (OSError, ValueError, LookupError, TypeError):
        pass  # it is gone, or no note
    return None


def _new_path() -> Path:
    return _directory() / f"{new_name(PREFIX)}.json"


def _directory() -> Path:
    return Path(tempfile.gettempdir())


def new_name(prefix: str) -> str:
    """A new name for a file, which says which process made it, so that a later one can tell if it is gone."""
    _, pid, start = this_process()
    return f"{prefix}-{host_digest()}-{pid}-{start}-{secrets.token_hex(8)}"


def left_by_killed(directory: Path, prefix: str) -> Iterator[Path]:
    """The files in a directory whose makers, processes of this host, are gone."""
    pattern = re.compile(rf"{prefix}-{host_digest()}-(\d+)-(\d+)-.*")
    for path in directory.glob(f"{prefix}-*"):
        made = pattern.fullmatch(path.name)
        if made is not None and surely_dead((this_process()[0], int(made[1]), int(made[2]))):
            yield path


def host_digest() -> str:
    return blake2b(this_process()[0].encode(), digest_size=4).hexdigest()
