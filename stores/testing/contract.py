"""The contract of stores, in one class."""

from __future__ import annotations

from stores.testing.life import LifeContract
from stores.testing.listing import ListingContract
from stores.testing.pages import PagesContract
from stores.testing.roots import RootsContract
from stores.testing.threads import ThreadsContract


class StoreContract(PagesContract, ListingContract, RootsContract, ThreadsContract, LifeContract):
    """Inherit, and give a fixture `store`. Each test uses names of its own, so tests may share a store.

    Set `picklable = False` or `survives_fork = False` if your store cannot be pickled, or not be forked.
    """
