"""The open directories of this process, each shared by all stores that name it."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable

from stores.rocksdb.database import Database


class Forked(Exception):
    """The directory was open when this process was forked, and its lock is the parent's."""


_databases: dict[str, Database] = {}
_inherited: set[str] = set()
_lock = threading.Lock()


def enter(
    directory: str, create: bool, direct: bool, users: tuple[object, ...], check: Callable[[], object]
) -> Database:
    """The database in a directory, open until its last user has left. Raises what the check does."""
    with _lock:
        check()
        if directory in _inherited:
            raise Forked(directory)
        database = _databases.get(directory)
        if database is None:
            database = _databases[directory] = Database(directory, create, direct)
        database.users.update(users)
        return database


def leave(directory: str, *users: object) -> None:
    """Closes the database if nobody else uses it. Who is no user leaves too."""
    with _lock:
        database = _databases.get(directory)
        if database is None:
            return
        try:
            database.users.difference_update(users)
        finally:
            if not database.users:
                try:
                    del _databases[directory]
                finally:
                    database.close()


def _forget_after_fork() -> None:
    # RocksDB's threads stay in the parent, and closing the child's copy would wait for them: never free it.
    global _lock
    for directory, database in _databases.items():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(database))
        _inherited.add(directory)
    _databases.clear()
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_after_fork)
