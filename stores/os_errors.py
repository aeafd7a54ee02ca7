"""What a call says is wrong, told apart from what others raise meanwhile: a handler of a signal, for one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


def of_the_system(error: Exception) -> bool:
    """Whether the operating system said it. A TimeoutError of others has no number."""
    return isinstance(error, OSError) and error.errno is not None


@contextmanager
def ignoring(said: Callable[[Exception], bool]) -> Iterator[None]:
    """Leaves out what a call says is wrong, and nothing that others raise."""
    try:
        yield
    except Exception as error:
        if not said(error):
            raise
