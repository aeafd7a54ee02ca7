"""The frames of a window: the limits of each, and the fields that have it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from mta.frames.limits import Limits
from mta.frames.policies import Policy
from mta.monoids.base import Monoid
from mta.monoids.fields import Fields
from mta.monoids.nulls import seeing_values


class Frame(NamedTuple):
    """A frame, and the fields that have it."""

    limits: Limits
    #: the least number of elements that each field asks for; no name for a monoid without fields
    least: Mapping[str | None, int]
    #: whether the window may end before the youngest element
    lags: bool
    #: whether the window ends with the youngest element, and has a result however few elements there are
    plain: bool


def frames_of(monoid: Monoid, policy: Policy | None) -> list[Frame]:
    """The frames of a monoid's fields: their own, or else the policy. Raises ValueError for predicates."""
    limits = Limits() if policy is None else seeing_values(policy.limits(), monoid)
    if isinstance(monoid, Fields) and monoid.frames:
        found = list(_frames_of_fields(monoid, policy, limits).items())
    else:
        found = [(limits, {None: limits.min_count})]
        if limits.predicates and (limits.lags() or limits.min_count):
            raise ValueError(
                f"the policy {policy!r} evicts by the aggregate of a window that ends with the youngest "
                "element: it cannot be united with a frame that ends before, nor with min_count"
            )
    frames = []
    for each, least in found:
        lags = each.closed_lag is not None or each.open_lag is not None
        frames.append(Frame(each, least, lags, not lags and not any(least.values())))
    return frames


def _frames_of_fields(
    fields: Fields, policy: Policy | None, limits: Limits
) -> dict[Limits, dict[str | None, int]]:
    """The different limits of some fields, each with its fields and the least counts that these ask for."""
    own = fields.frames
    if len(own) == len(fields.monoids) and policy is not None:
        raise ValueError(
            f"every field of {fields!r} has a frame of its own, so that no field is left for the policy "
            f"{policy!r}: leave the policy out"
        )
    if limits.predicates:
        raise ValueError(
            f"the policy {policy!r} evicts by an aggregate of the whole window, and {fields!r} has several "
            "windows: use frames of time and count, or a window of its own for the predicate"
        )
    found: dict[Limits, dict[str | None, int]] = {}
    for name in fields.monoids:
        each = own[name].limits() if name in own else limits
        found.setdefault(replace(each, min_count=0), {})[name] = each.min_count
    return found


def check_one_window(taker: str, monoid: Monoid, policy: Policy | None = None) -> None:
    """Raises ValueError for frames that `taker` does not have: it has one window, up to the last element."""
    if isinstance(monoid, Fields) and monoid.frames:
        raise ValueError(
            f"{taker} has one window, and {sorted(monoid.frames)} of {monoid!r} have frames of their own: "
            "use LogMTA or AmortizedMTA, or leave over() out and give a policy"
        )
    limits = Limits() if policy is None else policy.limits()
    if limits.lags() or limits.min_count:
        raise ValueError(
            f"{taker} has a window that ends with the last element and has a result however short it is, "
            f'got {policy!r}: use LogMTA or AmortizedMTA, or closed="right" or "both" without delay= and '
            "min_count="
        )
