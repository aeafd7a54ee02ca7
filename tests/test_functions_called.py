"""How many functions a call over Redis runs through: layers are found here before they are felt."""

from __future__ import annotations

import pytest
from chance import fresh
from functions_called import calls_of_a_window, usual

#: functions of the call in the middle
MOST = {"push": 7, "fill": 45, "enter": 75, "restore": 178}


@pytest.mark.redis
def test_calls_run_through_few_functions(redis_url: str) -> None:
    seen = calls_of_a_window(redis_url, fresh("walk"))
    assert seen.keys() == MOST.keys()
    middle = {does: usual(each) for does, each in seen.items()}
    assert {does: len(each) for does, each in middle.items() if len(each) > MOST[does]} == {}
    # taking back is for interrupts, and what versions name is looked through in the background
    names = {name for does in ("push", "fill", "enter") for _, name in middle[does]}
    assert "Buffer.put" in names
    assert "ReadAhead.head_at" in names
    assert not {"Buffer.take_back", "Named.by", "Reaper._unneeded"} & names
