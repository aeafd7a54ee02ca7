"""Checks of options: bools are no numbers, and errors show the rule and the value."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from mta.options import check_between, check_name, is_number, is_whole, whole_number


@pytest.mark.parametrize(
    ("value", "whole", "number"),
    [
        (3, True, True),
        (3.0, False, True),
        (True, False, False),
        (np.int64(3), False, False),
        ("3", False, False),
    ],
)
def test_numbers_of_python(value: Any, whole: bool, number: bool) -> None:
    assert is_whole(value) is whole
    assert is_number(value) is number


def test_whole_numbers_of_any_library() -> None:
    assert type(whole_number(np.uint8(7), "it takes a whole number")) is int
    for value in (True, 7.0, None, "7"):
        with pytest.raises(TypeError, match=f"^it takes a whole number, got {value!r} of type"):
            whole_number(value, "it takes a whole number")


@pytest.mark.parametrize("value", [3, 10, True, 4.0, None, np.int64(3), np.array([5, 6]), np.timedelta64(5)])
def test_options_between_two_limits(value: Any) -> None:
    for four in (4, np.int64(4), np.uint8(4)):
        found = check_between("Sketch", "k", four, 4, 9)
        assert (found, type(found)) == (4, int)
    with pytest.raises(
        ValueError, match=rf"^Sketch\(k=...\) is a whole number from 4 to 9, got {re.escape(repr(value))}$"
    ):
        check_between("Sketch", "k", value, 4, 9)


def test_names_of_functions() -> None:
    check_name("While", None)
    check_name("While", "budget")
    for name in ("", 3):
        with pytest.raises(TypeError, match=r"^While\(name=...\) takes a str that is not empty, got"):
            check_name("While", name)
