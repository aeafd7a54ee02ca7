"""What can be wrong with a call of `rolling`; all of it is raised before a job starts."""

from __future__ import annotations


class RollingError(ValueError):
    """A call of `rolling` that cannot be carried out as it stands."""


class UnsupportedColumn(RollingError, TypeError):
    """A column is of a type that an aggregate or a window cannot work on without rounding or guessing."""


class StoreNotUsable(RollingError):
    """The store cannot hold the pages of this job."""
