"""Where parts of a computation wait: in memory, or in a temporary file that no crash leaves behind."""

from __future__ import annotations

import os
import pickle
import tempfile
import weakref
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

    A handle is the place of an object in the file. The file has no name, so that it is gone when the process
    ends, however that may happen. Only this process reads what it wrote, so that pickle is safe.
    """

    def __init__(self) -> None:
        self._file: BinaryIO = tempfile.TemporaryFile(prefix="mta-", buffering=0)  # noqa: SIM115  `close` is below
        self.size = 0
        # also for readers that nobody reads to their ends
        self.close = weakref.finalize(self, self._file.close)  # type: ignore[method-assign]

    def put(self, value: Any) -> int:
        data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
        start = self.size
        self._write(len(data).to_bytes(_HEADER, "little"), start)
        self._write(data, start + _HEADER)
        self.size += _HEADER + len(data)
        return start

    def _write(self, data: bytes, start: int) -> None:
        view = memoryview(data)
        while view:
            done = os.pwrite(self._file.fileno(), view, start)
            view, start = view[done:], start + done

    def get(self, handle: int) -> Any:
        return pickle.loads(self._read(handle + _HEADER, self._length(handle)))

    def _length(self, handle: int) -> int:
        return int.from_bytes(self._read(handle, _HEADER), "little")

    def _read(self, start: int, size: int) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            done = os.preadv(self._file.fileno(), [view], start)
            if not done:
                raise OSError(f"a temporary file ends at {start} bytes and should be longer")
            view, start = view[done:], start + done
        return data

    def size_of(self, handles: Iterable[int]) -> int:
        return sum(_HEADER + self._length(handle) for handle in handles)


#: Bytes before an object that have its length.
_HEADER = 8
