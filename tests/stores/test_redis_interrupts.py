"""Signals that come anywhere in the calls of a store: it goes on, and so do other threads that use it."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.redis

#: Calls that a signal interrupts wherever it comes, beside a thread that makes calls without one. There
#: may be as many connections as threads, so that one that is counted for ever is missed.
INTERRUPTED = """
import random, signal, sys, threading
from stores import open_store

class Stopped(BaseException):
    pass

def stop(*_):
    raise Stopped

signal.signal(signal.SIGALRM, stop)
url, name, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
store = open_store(url, max_connections=2, patience=20)
store.put_many({name: b"value"})
done, failed = threading.Event(), []

def others():
    try:
        while not done.is_set():
            store.put_many({name + "2": b"value"})
    except BaseException as error:
        failed.append(error)

thread = threading.Thread(target=others)
thread.start()
stopped, rng = 0, random.Random(1)
for each in range(rounds):
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.00002, 0.0012))
            for _ in range(20):
                assert store.get_many([name]) == [b"value"]
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except Stopped:
        stopped += 1
done.set()
thread.join()
assert not failed, failed
store.delete_many([name, name + "2"])
print(stopped)
sys.stdout.flush()
"""


def test_interrupts_leave_neither_a_lock_nor_a_connection_behind(redis_url: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, redis_url, "interrupted", "4000"],
        capture_output=True, text=True, check=False, timeout=1800,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout) > 500
