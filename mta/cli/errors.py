"""Errors of commands, and the check for optional packages."""

from __future__ import annotations

import importlib.util


class CommandFailed(Exception):
    """A command cannot do what the user asked for. The user sees the message and no traceback."""


class NotInstalled(CommandFailed):
    """A package that a command needs is not installed."""


def need(extra: str, *packages: str) -> None:
    """Raises NotInstalled, with the name of the extra, unless all packages are installed."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise NotInstalled(f"this needs {package}: pip install 'mta-windows[{extra}]'")
