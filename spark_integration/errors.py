"""What can be wrong with a call of `rolling`, and with the data and the store of a job that it makes."""

from __future__ import annotations

from stores import StoreError


class RollingError(ValueError):
    """A call of `rolling` that cannot be carried out as it stands; raised before a job starts."""


class UnsupportedColumn(RollingError, TypeError):
    """A column is of a type that an aggregate or a window cannot work on without rounding or guessing."""


class StoreNotUsable(RollingError):
    """The store cannot hold the pages of this job."""


class WorkersNotUsable(RollingError):
    """The Python of the workers lacks a package that they need."""


class DataError(ValueError):
    """In a task: a row that an aggregate cannot take, or whose result cannot be given."""


class TaskStoreError(StoreError):
    """In a task: the store cannot do a call."""
