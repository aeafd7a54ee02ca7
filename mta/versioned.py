"""A window as a value: opened from one version, and saved as the next, which somebody else keeps.

The rest of a version is in the store, under an attempt's hold (`mta.attempts`). A window that is still
smaller than a page, and whose rows fit into the version itself, never touches the store.
"""

from __future__ import annotations

from typing import TypeVar

from mta.attempts import AttemptHold
from mta.checkpoint import Checkpoints, fingerprint
from mta.manifest import Version
from mta.monoids.base import Monoid
from mta.packing import pack
from mta.policies import Policy
from mta.stored_pages import StoredPages
from mta.window import CLOSED, MonoidTreeAggregator
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
    window._attach(store, hold, Checkpoints(store, name, window._layout, hold, inline))
    if base is not None:
        window._load(base)
    return window


def save_version(window: MonoidTreeAggregator, hold: AttemptHold, number: int) -> Version:
    """The window as a version, published if anything had to be written for it. Closes the window."""
    pages = window._pages
    assert isinstance(pages, StoredPages)
    pages.flush(window._tail)
    version = window._checkpoints.version(window._content(), number, pack(number))
    if hold.wrote:
        hold.commit(version, window.monoid.fingerprint(), fingerprint(window.policy))
        pages.delete_behind()
    pages.close()
    window._forest.tails = []
    window._closed, window._ended = CLOSED, True
    return version
