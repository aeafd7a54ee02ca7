"""Where parts of a computation wait: in memory, or in a temporary file that no crash leaves behind."""

from __future__ import annotations

import os
import pickle
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, BinaryIO


class Scratch(ABC):
    """Keeps objects under handles."""

    @abstractmethod
    def put(self, value: Any) -> Any:
        """Keeps an object that nobody changes any more; returns a handle."""

    @abstractmethod
    def get(self, handle: Any) -> Any:
        """The object, or one that is equal to it."""

    #: bytes that are kept on disk
    size = 0

    def size_of(self, handles: Iterable[Any]) -> int:  # noqa: ARG002  memory is freed with the last handle
        """The bytes on disk that handles stand for."""
        return 0

    def close(self) -> None:  # noqa: B027  memory needs no closing
        """Frees what is kept."""


class InMemory(Scratch):
    """Its handles are the objects."""

    def put(self, value: Any) -> Any:
        return value

    def get(self, handle: Any) -> Any:
        return handle


class OnDisk(Scratch):
    """Keeps objects in one temporary file, in the directory that `tempfile` chooses (TMPDIR).

    The file has no name, so that it is gone when the process ends, however that may happen. Only this process
    reads what it wrote, so that pickle is safe.
    """

    def __init__(self) -> None:
        self._file: BinaryIO = tempfile.TemporaryFile(prefix="mta-")  # noqa: SIM115  closed by `close`
        self.size = 0

    def put(self, value: Any) -> tuple[int, int]:
        data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
        start, done = self.size, 0
        view = memoryview(data)
        while done < len(data):
            done += os.pwrite(self._file.fileno(), view[done:], start + done)
        self.size += len(data)
        return start, len(data)

    def get(self, handle: tuple[int, int]) -> Any:
        start, size = handle
        data, done = bytearray(size), 0
        view = memoryview(data)
        while done < size:
            read = os.preadv(self._file.fileno(), [view[done:]], start + done)
            if not read:
                raise OSError(f"the temporary file ends at {start + done} bytes and should have more")
            done += read
        return pickle.loads(data)

    def size_of(self, handles: Iterable[tuple[int, int]]) -> int:
        return sum(size for _, size in handles)

    def close(self) -> None:
        self._file.close()
