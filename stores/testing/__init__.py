"""The contract of stores as a test class to inherit from, and wrappers that are slow, faulty or counted.

class TestMyStore(StoreContract):
    @pytest.fixture
    def store(self):
        with open_store("mystore://...") as store:
            yield store
"""

import pytest

pytest.register_assert_rewrite("stores.testing.contract")  # before it is imported

from stores.testing.contract import ODD_IDS, ODD_NAMES, StoreContract  # noqa: E402
from stores.testing.faults import FaultyStore, LateStore, WriteOnceStore  # noqa: E402
from stores.wrapper import CountingStore  # noqa: E402
from stores.wrapper import LatencyStore as SlowStore  # noqa: E402

__all__ = [
    "ODD_IDS",
    "ODD_NAMES",
    "CountingStore",
    "FaultyStore",
    "LateStore",
    "SlowStore",
    "StoreContract",
    "WriteOnceStore",
]
