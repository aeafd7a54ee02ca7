from __future__ import annotations

import random
from collections import deque

import pytest

from mta.baselines.daba import CHUNK, ChunkedArrayQueue


def test_against_a_deque() -> None:
    chance = random.Random(1)
    queue, model, first = ChunkedArrayQueue(), deque[int](), 0
    for _ in range(300):
        for _ in range(chance.choice([1, 100, CHUNK])):
            queue.push_back(len(model))
            model.append(len(model))
        for _ in range(min(len(model), chance.choice([0, 1, 100, CHUNK, 3 * CHUNK]))):
            queue.pop_front()
            model.popleft()
            first += 1
        if model and chance.random() < 0.5:
            queue.pop_back()
            model.pop()
        if model:
            place = chance.randrange(len(model))
            queue[queue.begin + place] = model[place] = -1
        assert list(queue) == list(model)
        assert len(queue) == len(model)
        assert (queue.begin, queue.end) == (first, first + len(model))
        assert len(queue.chunks) <= len(model) // CHUNK + 2


def test_pointers_stay_good_while_the_queue_moves() -> None:
    queue = ChunkedArrayQueue()
    for value in range(CHUNK - 1):
        queue.push_back(value)
    p = queue.end - 1
    for value in range(CHUNK - 1, 3 * CHUNK):
        queue.push_back(value)
    for _ in range(10):
        queue.pop_front()
    assert queue[p] == CHUNK - 2
    assert queue[p + 1] == CHUNK - 1
    assert queue[p + 2] == CHUNK
    assert (p + 2) - 1 == p + 1


def test_a_chunk_is_freed_when_its_last_element_leaves() -> None:
    queue = ChunkedArrayQueue()
    for value in range(2 * CHUNK):
        queue.push_back(value)
    assert len(queue.chunks) == 2
    for _ in range(CHUNK - 1):
        queue.pop_front()
    assert len(queue.chunks) == 2
    queue.pop_front()
    assert len(queue.chunks) == 1
    for _ in range(CHUNK):
        queue.pop_front()
    assert len(queue.chunks) == 0
    queue.push_back("next")
    assert list(queue) == ["next"]


def test_what_is_not_there() -> None:
    queue = ChunkedArrayQueue()
    with pytest.raises(IndexError, match="empty queue"):
        queue.pop_front()
    with pytest.raises(IndexError, match="empty queue"):
        queue.pop_back()
    queue.push_back(1)
    with pytest.raises(IndexError, match=r"pointer 1 is not in \[0, 1\)"):
        queue[1]
    with pytest.raises(IndexError, match="pointer -1"):
        queue[-1] = 2
