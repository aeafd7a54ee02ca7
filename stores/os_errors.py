"""Tells errors of the operating system from errors that others raise meanwhile, such as signal handlers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


def is_os_error(error: Exception) -> bool:
    """Whether the operating system raised the error. A TimeoutError that Python code raises has no errno."""
    return isinstance(error, OSError) and error.errno is not None


@contextmanager
def ignoring(expected: Callable[[Exception], bool]) -> Iterator[None]:
    """Suppresses the expected errors and no others."""
    try:
        yield
    except Exception as error:
        if not expected(error):
            raise
