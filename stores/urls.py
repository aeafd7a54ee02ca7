"""The URLs of stores, and their options, which stand in the URL or come as keywords."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import SplitResult, urlsplit

from stores.errors import StoreConfigError


def split_url(url: str) -> SplitResult:
    """The parts of a store's URL. A StoreConfigError shows its scheme only: the rest may hold a password."""
    if not isinstance(url, str):
        raise TypeError(f"a store's URL must be a str, not {type(url).__name__}")
    found = re.match(r"[A-Za-z][A-Za-z0-9+.-]*(?=:)", url)
    scheme = found[0] if found else ""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise StoreConfigError(f"the {scheme}: URL is not valid: percent-encode special characters") from None
    if parts.netloc and "@" in parts.path + parts.query + parts.fragment:
        raise StoreConfigError(f"the {scheme}: URL is ambiguous: percent-encode '/', '?' and '@' in it")
    if not parts.netloc and re.match(r"[^/.@][^/@]*:|:", parts.path.partition("@")[0]) and "@" in parts.path:
        raise StoreConfigError(
            f"the {scheme}: URL lacks the slashes before its user: {scheme}://user:password@host"
        )
    if parts.fragment:
        raise StoreConfigError(f"the {scheme}: URL contains '#': percent-encode it")
    return parts


def without_password(url: str) -> str:
    """The URL as errors may show it. If its slashes were forgotten, a password may stand before any '@'."""
    scheme, colon, rest = url.partition(":")
    slashes = "//" if rest.startswith("//") else ""
    userinfo, at, location = rest.removeprefix("//").rpartition("@")
    user, secret, _ = userinfo.partition(":")
    if not at or not (slashes or secret):
        return url
    return f"{scheme}{colon}{slashes}{user}{at if user else ''}{location}"


def parse_bool(value: object) -> bool:
    values = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
    if isinstance(value, bool):
        return value
    if not isinstance(value, str) or value.lower() not in values:
        raise ValueError(f"expected true or false, got {value!r}")
    return values[value.lower()]


def parse_text(value: object) -> str:
    if not isinstance(value, str):  # not shown: it may be a password
        raise ValueError(f"expected a str, got {type(value).__name__}")
    return value


def parse_number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError(f"expected a number, got {value!r}")
    try:
        number = float(value)
    except (ValueError, OverflowError):
        raise ValueError(f"expected a number, got {value!r}") from None
    if not math.isfinite(number):
        raise ValueError(f"expected a finite number, got {value!r}")
    return number


def parse_whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ValueError(f"expected a whole number, got {value!r}")
    try:
        return int(value)
    except ValueError:
        raise ValueError(f"expected a whole number, got {value!r}") from None


def within(parse: Callable[[object], Any], least: float, most: float = math.inf) -> Callable[[object], Any]:
    """The reader of an option that has bounds."""

    def read(value: object) -> Any:
        number = parse(value)
        if not least <= number <= most:
            bounds = f"at least {least}" if most == math.inf else f"from {least} to {most}"
            raise ValueError(f"expected {bounds}, got {value!r}")
        return number

    return read


#: Readers that are stricter than the types themselves: int(2.5) is 2, and float("nan") is no duration.
_READERS: dict[Any, Callable[[object], Any]] = {
    str: parse_text,
    int: parse_whole,
    float: parse_number,
    bool: parse_bool,
}


def read_option(read: Callable[[Any], Any], value: object) -> Any:
    """The value of an option, given as text in a URL or as a keyword; raises ValueError."""
    try:
        strict: Callable[[Any], Any] = _READERS.get(read, read)
        return strict(value)
    except TypeError as error:
        raise ValueError(f"{error}, got {type(value).__name__}") from None
