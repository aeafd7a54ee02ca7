"""No call grows with what it is not documented to depend on."""

from __future__ import annotations

import pytest
from growth import grown


@pytest.mark.long
def test_calls_that_grow() -> None:
    assert grown() == []
