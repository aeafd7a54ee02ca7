"""Tells errors of RocksDB from errors that others raise while it works."""

from __future__ import annotations

import re

from stores.os_errors import is_os_error

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
