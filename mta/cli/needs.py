"""Whether a command has the packages that it needs."""

from __future__ import annotations

import importlib.util


class NotInstalled(Exception):
    """A command needs an extra that is not there."""


def need(extra: str, *packages: str) -> None:
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise NotInstalled(f"this needs {package}: pip install 'mta-windows[{extra}]'")
