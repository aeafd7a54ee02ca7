"""A Redis in a network namespace of its own, whose packets are dropped for some seconds.

Run by test_late_writes.py under `unshare --net`. Ends with 0 if nothing was lost.
"""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import servers

from mta import AmortizedMTA, monoids, policies
from mta.durability.operations import verify
from stores import StoreUnavailable, open_store

#: How /proc/net/tcp says that a connection was closed with something in it that its other end has not had.
CLOSED_WITH_SOMETHING_LEFT = ("04", "09", "0B")


def under_way() -> bool:
    """Whether the kernel will still send something again of connections that were given up."""
    _, *lines = Path("/proc/self/net/tcp").read_text().splitlines()
    return any(line.split()[3] in CLOSED_WITH_SOMETHING_LEFT for line in lines)


def dropped() -> int:
    """Packets that the rule has dropped so far."""
    listed = subprocess.run(["nft", "list", "ruleset"], check=True, capture_output=True, text=True).stdout
    return int(listed.partition("counter packets ")[2].split()[0])


def drop(port: int) -> None:
    for rule in (
        "add table ip outage",
        "add chain ip outage in { type filter hook input priority 0; }",
        f"add rule ip outage in tcp dport {port} counter drop",
    ):
        subprocess.run(["nft", *rule.split()], check=True)


def main(directory: Path) -> None:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    numbers = np.random.default_rng(1).integers(0, 1 << 40, 8000)
    policy = policies.CountWindow(100_000)
    with (
        servers.redis_server(directory) as server,
        open_store(f"{server.url}?socket_timeout=0.5&socket_connect_timeout=0.5&patience=1.5") as store,
    ):
        window = AmortizedMTA(monoids.Sum(), policy, store=store, name="w")
        window.extend(numbers[:2000])
        window.checkpoint()
        window.extend(numbers[2000:4000])
        drop(server.port)
        try:
            window.checkpoint()
        except StoreUnavailable:
            pass
        else:
            sys.exit("a checkpoint went through a network that drops all packets")
        assert under_way()
        print(f"the network dropped packets: {dropped()}")
        subprocess.run(["nft", "flush", "ruleset"], check=True)
        window.extend(numbers[4000:6000])
        while True:  # a machine with much to do may take longer than this store has patience
            with suppress(StoreUnavailable):
                window.checkpoint()
                break
        while under_way():
            time.sleep(0.05)
        problems = verify(store, "w").problems
        with AmortizedMTA.restore(store, "w", monoids.Sum(), policy) as again:
            total = again.query()
        if problems or total != int(numbers[:6000].sum()):
            sys.exit(f"after the outage: {problems}, sum {total} of {numbers[:6000].sum()}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
