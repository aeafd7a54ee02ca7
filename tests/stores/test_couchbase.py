from __future__ import annotations
from collections.abc import Iterator
import pytest
from stores import Store, open_store
from stores.testing import StoreContract
pytestmark = pytest.mark.couchbase
class TestCouchbase(StoreContract):
    @pytest.fixture
    def store(self, couchbase_url: str) -> Iterator[Store]:
        with open_store(couchbase_url) as store:
            yield store
