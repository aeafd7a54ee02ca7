"""What can go wrong with a window. Errors of a store are in `stores`."""

from __future__ import annotations


class WindowError(Exception):
    """Base of the errors of this package."""


class OutOfOrderError(WindowError, ValueError):
    """A time before the youngest element's."""


class MissingTime(WindowError, TypeError, ValueError):
    """An element without a time where times are given or the policy asks for them, or one with a time where
    they are counted."""


class EmptyWindowError(WindowError, IndexError):
    """More was asked of a window than it holds."""


class WindowClosed(WindowError):
    """The window was closed."""


class ConcurrentUse(WindowError, RuntimeError):
    """Two threads were in one window at once; the call of this one has not happened."""


class PageError(WindowError):
    """A page of the window cannot be used; the window refuses to answer rather than answer wrongly."""


class PagesLost(PageError):
    """A page is not in the store."""


class PageCorrupt(PageError):
    """A page is not what was written."""


class ManifestCorrupt(PageError):
    """The manifest of a window is not what was written."""


class ManifestMismatch(WindowError, ValueError):
    """A window was restored with another monoid, policy or page size than it was checkpointed with."""


class WindowNotFound(WindowError, KeyError):
    """There is no checkpoint of a window under this name, or not this version of it."""

    def __str__(self) -> str:
        return str(self.args[0])


class Fenced(WindowError):
    """Another writer has taken the window over; this one must not go on."""


class WindowExists(Fenced):
    """A new window has the name of one that has checkpoints."""
