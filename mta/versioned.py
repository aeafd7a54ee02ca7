"""A window as a value: opened from one version, and saved as the next, which somebody else keeps.

The rest of a version is in the store, under an attempt's hold (`mta.durability.attempts`). A window that is
still smaller than a page, and whose rows fit into the version itself, never touches the store.
"""

from __future__ import annotations

from typing import TypeVar

from mta.durability.attempts import AttemptHold
from mta.durability.manifest import Version
from mta.monoids.base import Monoid
from mta.policies import Policy
from mta.window import MonoidTreeAggregator
from stores import Store

W = TypeVar("W", bound=MonoidTreeAggregator)


def open_version(
    kind: type[W],
    monoid: Monoid,
    policy: Policy | None,
    hold: AttemptHold,
    *,
    store: Store,
    name: str,
    page_size: int | None,
    base: Version | None,
    inline: int,
) -> W:
    """The window as a version left it, or an empty one; `inline` bytes of each tail may stand in one."""
    window = kind(monoid, policy, name=name, page_size=page_size)
    window.keep_in(store, hold, inline=inline)
    if base is not None:
        window.load(base)
    return window


def save_version(window: MonoidTreeAggregator, number: int) -> Version:
    """The window as a version, published if anything had to be written for it. Closes the window."""
    return window.hand_over(number)
