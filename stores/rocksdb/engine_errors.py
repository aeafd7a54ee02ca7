"""What the engine says is wrong, told apart from what others raise while it is at work."""

from __future__ import annotations

import re

from stores.os_errors import is_os_error

#: How the engine's errors begin, and those of the system end that its package for Python saw first.
_STATUS = re.compile(
    r"(NotFound|Corruption|Not implemented|Invalid argument|IO error|Merge in progress|Result incomplete|"
    r"Shutdown in progress|Operation timed out|Operation aborted|Resource busy|Operation expired|"
    r"Operation failed\. Try again\.|Compaction too large|Column family dropped)(: |$)|"
    r".*\(os error \d+\)$",
    re.DOTALL,
)


def of_the_engine(error: Exception) -> bool:
    """Its package raises plain exceptions."""
    return type(error) is Exception and _STATUS.match(str(error)) is not None


def of_a_directory(error: Exception) -> bool:
    """Whether the engine or the system said it of a directory."""
    return of_the_engine(error) or is_os_error(error)
