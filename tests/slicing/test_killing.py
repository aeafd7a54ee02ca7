"""kill -9 and restore, with late tuples around; `python tests/slicing/killing.py` does more of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from killing import kill


def test_a_writer_that_is_killed_over_rocksdb(tmp_path: Path) -> None:
    killed, lines = kill(f"rocksdb:{tmp_path / 'windows'}", 3, 120)
    assert (killed, lines >= 120) == (3, True)


@pytest.mark.redis
def test_a_writer_that_is_killed_over_redis(redis_url: str) -> None:
    killed, lines = kill(redis_url, 2, 90)
    assert (killed, lines >= 90) == (2, True)
