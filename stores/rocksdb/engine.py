"""What this store uses of the engine: kinds of keys, scans, options, and how its errors are known."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import rocksdict

from stores.os_errors import is_os_error

#: The first byte of a key says what is stored under it.
PAGE = b"p"
ROOT = b"r"
COMMITS = b"s"

#: How errors of the engine begin, and how errors of the system end that its Python package passes on.
_STATUS = re.compile(
    r"(NotFound|Corruption|Not implemented|Invalid argument|IO error|Merge in progress|Result incomplete|"
    r"Shutdown in progress|Operation timed out|Operation aborted|Resource busy|Operation expired|"
    r"Operation failed\. Try again\.|Compaction too large|Column family dropped)(: |$)|"
    r".*\(os error \d+\)$",
    re.DOTALL,
)


def is_engine_error(error: Exception) -> bool:
    """Whether RocksDB raised the error: its Python package raises plain `Exception`."""
    return type(error) is Exception and _STATUS.match(str(error)) is not None


def is_directory_error(error: Exception) -> bool:
    """Whether the engine or the operating system raised the error."""
    return is_engine_error(error) or is_os_error(error)


def scan(rocks: Any, prefix: bytes, start: bytes) -> Iterator[Any]:
    """The entries with a prefix, from the key `start` on. Yields the engine's iterator at each of them."""
    entry = rocks.iter()
    entry.seek(start)
    while entry.valid() and entry.key().startswith(prefix):
        yield entry
        entry.next()
    entry.status()  # raises if the iterator ended because of damage


def engine_options(direct: bool = False) -> rocksdict.Options:
    """Options for pages of some 100 KB, written once in order of their keys, in memory of a fixed size.

    Pages are in blob files, and compaction merges their keys only: a page is written once, and a blob file is
    deleted when its last page is dead. Values below 4 KB are merged with the keys, as they may live much
    longer than the pages written with them. Compression costs more than it saves on packed columns.

    With `direct`, files are written past the system's page cache. They are read through it all the same: a
    small file of keys is read for many pages.
    """
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(False)
    options.set_use_direct_io_for_flush_and_compaction(direct)
    # the log is read as far as it is valid; whether a commit is missing is checked by number and digest
    options.set_wal_recovery_mode(rocksdict.DBRecoveryMode.point_in_time())
    options.set_write_buffer_size(8 << 20)
    options.set_max_write_buffer_number(3)
    options.set_enable_blob_files(True)
    options.set_min_blob_size(4 << 10)
    options.set_blob_compression_type(rocksdict.DBCompressionType.none())
    options.set_compression_type(rocksdict.DBCompressionType.none())
    options.set_level_zero_file_num_compaction_trigger(2)
    # a write that waits for a flush holds the interpreter's lock, so let it wait late
    options.set_level_zero_slowdown_writes_trigger(64)
    options.set_level_zero_stop_writes_trigger(128)
    options.set_max_total_wal_size(16 << 20)
    options.set_target_file_size_base(32 << 20)
    options.set_max_bytes_for_level_base(256 << 20)
    options.set_max_open_files(64)
    # each of the usual 16 threads reserves address space, and a Spark worker may have little
    options.set_max_file_opening_threads(1)
    options.set_max_background_jobs(2)
    # the engine's own message log would grow without end
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(1 << 20)
    tables = rocksdict.BlockBasedOptions()
    tables.set_block_cache(rocksdict.Cache(2 << 20))
    options.set_block_based_table_factory(tables)
    return options
