"""No cost of a call grows with a dimension that the documentation does not name."""

from __future__ import annotations

import pytest
from growth import grown


@pytest.mark.long
def test_calls_that_grow() -> None:
    assert grown() == []
