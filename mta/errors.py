"""What can go wrong with a window. Errors of a store are in `stores`."""

from __future__ import annotations


class WindowError(Exception):
    """Base of the errors of this package."""


class OutOfOrderError(WindowError, ValueError):
    """A time before the youngest element's."""


class EmptyWindowError(WindowError, IndexError):
    """More was asked of a window than it holds."""


class WindowClosed(WindowError):
    """The window was closed."""


class PageError(WindowError):
    """A page of the window cannot be used; the window refuses to answer rather than answer wrongly."""


class PagesLost(PageError):
    """A page is not in the store."""


class PageCorrupt(PageError):
    """A page is not what was written."""
