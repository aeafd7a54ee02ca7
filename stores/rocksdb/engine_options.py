"""How the engine is set up."""

from __future__ import annotations

import rocksdict


def settings(direct: bool = False) -> rocksdict.Options:
    """Memory that does not grow with the data, for pages of some 100 KB written once in order of their keys.

    Pages are in blob files, and only their keys are merged: a page is written once, and a file of pages goes
    when the last of them is dead. Smaller values may live much longer than the pages they came with, and are
    merged. Compression costs more than it saves on packed columns.

    `direct`: files are written past the system's page cache, and read by it all the same: a small file of
    keys is read for many pages.
    """
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(False)
    options.set_use_direct_io_for_flush_and_compaction(direct)
    # a log is taken as far as it can be read; that all commits were in it is found by their number and digest
    options.set_wal_recovery_mode(rocksdict.DBRecoveryMode.point_in_time())
    options.set_write_buffer_size(8 << 20)
    options.set_max_write_buffer_number(3)
    options.set_enable_blob_files(True)
    options.set_min_blob_size(4 << 10)
    options.set_blob_compression_type(rocksdict.DBCompressionType.none())
    options.set_compression_type(rocksdict.DBCompressionType.none())
    options.set_level_zero_file_num_compaction_trigger(2)
    # a write that has to wait for a flush waits with the interpreter's lock held: leave it room
    options.set_level_zero_slowdown_writes_trigger(64)
    options.set_level_zero_stop_writes_trigger(128)
    options.set_max_total_wal_size(16 << 20)
    options.set_target_file_size_base(32 << 20)
    options.set_max_bytes_for_level_base(256 << 20)
    options.set_max_open_files(64)
    # each of the usual 16 threads reserves address space, of which a Spark worker may have little
    options.set_max_file_opening_threads(1)
    options.set_max_background_jobs(2)
    # what the engine tells of itself grows without an end otherwise
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(1 << 20)
    tables = rocksdict.BlockBasedOptions()
    tables.set_block_cache(rocksdict.Cache(2 << 20))
    options.set_block_based_table_factory(tables)
    return options
