"""The open directories of this process, each shared by all stores that name it, by whatever path."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from stores.rocksdb.database import Database
from stores.rocksdb.directory import file_at
from stores.rocksdb.engine_errors import of_a_directory


class Forked(Exception):
    """The directory was open when this process was forked, and its lock is the parent's."""


#: as keys, so that no call is needed to take one out, which an interrupt would find half done
_databases: dict[Database, None] = {}
_inherited: list[Database] = []
_lock = threading.Lock()


def enter(
    directory: str, create: bool, direct: bool, users: tuple[object, ...], check: Callable[[], object]
) -> Database:
    """The database in a directory, open until its last user has left. Raises what the check does."""
    with _lock:
        check()
        for database in _databases:
            if not database.users.isdisjoint(users):
                break
        else:
            database = _found(directory) or _opened(directory, create, direct)
        database.users.update(users)
        return database


def _found(directory: str) -> Database | None:
    """The open database that a path leads to, or led to when it was opened."""
    place = file_at(directory)
    if any(each.directory == directory or each.place == place for each in _inherited):
        raise Forked(directory)
    for each in tuple(_databases):
        if each.directory == directory or each.place == place:
            each.check_in_place()
            if each.users:
                return each
            _close(each)  # an interrupt kept its last user from it
    return None


def _opened(directory: str, create: bool, direct: bool) -> Database:
    database = Database(directory, create, direct)
    _databases[database] = None
    return database


def leave(*users: object) -> None:
    """Closes the databases that nobody else uses. Who is no user leaves too."""
    with _lock:
        for database in tuple(_databases):  # some go meanwhile
            try:
                database.users.difference_update(users)
            finally:
                if not database.users:
                    _close(database)


def _close(database: Database) -> None:
    if not database.in_place():
        database.never_free()  # and it stays in the list, since the engine opens no second one at its path
        return
    try:
        database.close()
    except Exception as error:
        if of_a_directory(error):  # and it is closed: after an interrupt it stays, to be closed again
            del _databases[database]
        raise
    del _databases[database]


def _forget_after_fork() -> None:
    # RocksDB's threads stay in the parent, and closing the child's copy would wait for them
    global _lock
    for database in _databases:
        database.never_free()
        _inherited.append(database)
    _databases.clear()
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_after_fork)
