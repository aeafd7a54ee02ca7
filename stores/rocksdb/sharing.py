"""The open databases of this process. All stores on one directory share one, whatever path they name."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from stores.rocksdb.database import Database
from stores.rocksdb.directory import file_id
from stores.rocksdb.engine import is_directory_error


class Forked(Exception):
    """The directory was open when this process was forked, so the parent has its lock."""


#: a dict, since `del` needs no call of a function, which an interrupt could find half done
_databases: dict[Database, None] = {}
_inherited: list[Database] = []
_lock = threading.Lock()


def acquire(
    directory: str, create: bool, direct: bool, users: tuple[object, ...], check: Callable[[], object]
) -> Database:
    """Adds users to the database of a directory, which is opened for the first user. `check` may raise."""
    with _lock:
        check()
        for database in _databases:
            if not database.users.isdisjoint(users):
                break
        else:
            database = _found(directory) or Database(directory, create, direct)
            _databases[database] = None
        database.users.update(users)
        return database


def _found(directory: str) -> Database | None:
    """The open database at a path, or the one that was at this path when it was opened."""
    directory_id = file_id(directory)
    if any(each.directory == directory or each.directory_id == directory_id for each in _inherited):
        raise Forked(directory)
    for each in tuple(_databases):
        if each.directory == directory or each.directory_id == directory_id:
            each.check_in_place()
            if each.users:
                return each
            _close(each)  # its last user was interrupted before it did so
    return None


def release(*users: object) -> None:
    """Removes users from all databases, and closes those without users. Users that are none are ignored."""
    with _lock:
        for database in tuple(_databases):  # a copy, since `_close` removes entries
            try:
                database.users.difference_update(users)
            finally:
                if not database.users:
                    _close(database)


def _close(database: Database) -> None:
    if not database.is_in_place():
        database.never_free()  # and it stays registered: the engine opens no second one at its path
        return
    try:
        database.close()
    except Exception as error:
        if is_directory_error(
            error
        ):  # it is closed all the same; after an interrupt it stays, to be closed again
            del _databases[database]
        raise
    del _databases[database]


def _forget_after_fork() -> None:
    # a forked child has none of RocksDB's threads, and closing its copy would wait for them
    global _lock
    for database in _databases:
        database.never_free()
        _inherited.append(database)
    _databases.clear()
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_after_fork)
