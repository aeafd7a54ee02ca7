"""The errors of windows. The errors of stores are in `stores`."""

from __future__ import annotations


class WindowError(Exception):
    """Base class of the errors of this package."""


class OutOfOrderError(WindowError, ValueError):
    """A time is before the time of the youngest element."""


class MissingTime(WindowError, TypeError, ValueError):
    """An element has no time though the window needs one, or has one though the window counts times."""


class EmptyWindowError(WindowError, IndexError):
    """A call needs more elements than the window holds."""


class WindowClosed(WindowError):
    """The window was closed."""


class ConcurrentUse(WindowError, RuntimeError):
    """Two threads called one window at once. This call has not happened."""


class PageError(WindowError):
    """A page of the window cannot be used. The window gives no answer rather than a wrong one."""


class PagesLost(PageError):
    """A page is not in the store."""


class PageCorrupt(PageError):
    """The bytes of a page are not the ones that were written."""


class ManifestCorrupt(PageError):
    """The bytes of a manifest are not the ones that were written."""


class ManifestMismatch(WindowError, ValueError):
    """The checkpoint has another monoid, policy or page size than `restore` got, or several views."""


class WindowNotFound(WindowError, KeyError):
    """The store has no checkpoint under this name, or not this version."""

    def __str__(self) -> str:
        return str(self.args[0])


class Fenced(WindowError):
    """Another writer has taken over the window. This writer must stop."""


class WindowExists(Fenced):
    """The store already has checkpoints under the name of a new window."""
