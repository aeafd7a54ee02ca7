"""The contract of stores as a test class to inherit from, and wrappers that are slow, faulty or counted.

class TestMyStore(StoreContract):
    @pytest.fixture
    def store(self):
        with open_store("mystore://...") as store:
            yield store
"""

import pytest

# before the parts are imported, so that their assertions show the values
for _part in ("fixtures", "pages", "listing", "roots", "threads", "life"):
    pytest.register_assert_rewrite(f"stores.testing.{_part}")

from stores.counting import CountingStore  # noqa: E402
from stores.testing.contract import StoreContract  # noqa: E402
from stores.testing.faults import FaultyStore, LateStore, WriteOnceStore  # noqa: E402
from stores.testing.fixtures import ODD_IDS, ODD_NAMES  # noqa: E402
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
