"""Policies with a predicate, over aggregates that may have met nothing but nulls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mta import monoids
from mta.frames.limits import Limits, OfRest, Predicate
from mta.monoids.base import Monoid
from mta.policies import Policy
from spark_integration.aggregates.null_objects import NullableObjects


def without_nulls(policy: Policy, monoid: Monoid) -> Policy:
    """The policy with predicates that see the identity where an aggregate has met nothing but nulls."""
    limits = policy.limits()
    if not limits.predicates or not isinstance(monoid, monoids.Fields):
        return policy
    identities = {name: _identity(each) for name, each in monoid.monoids.items()}

    def seeing(predicate: Predicate) -> Predicate:
        if isinstance(predicate, OfRest):
            return _Filling(predicate, identities)

        def rejects(total: Any, old: Any) -> bool:
            return bool(predicate(_filled(total, identities), _filled(old, identities)))

        return rejects

    predicates = tuple(map(seeing, limits.predicates))
    return _Given(policy, replace(limits, predicates=predicates, in_columns=False))


class _Filling(OfRest):
    def __init__(self, predicate: OfRest, identities: Mapping[str, Any]) -> None:
        self._predicate, self._identities = predicate, identities

    def enough(self, rest: Any) -> bool:
        return bool(self._predicate.enough(_filled(rest, self._identities)))

    def __call__(self, total: Any, old: Any) -> bool:
        return bool(self._predicate(_filled(total, self._identities), _filled(old, self._identities)))


class _Given(Policy):
    def __init__(self, policy: Policy, limits: Limits) -> None:
        self._policy, self._limits = policy, limits

    def limits(self) -> Limits:
        return self._limits

    def check(self, monoid: Monoid) -> None:
        self._policy.check(monoid)

    def fingerprint(self) -> str:
        return self._policy.fingerprint()


def _filled(states: Mapping[str, Any], identities: Mapping[str, Any]) -> dict[str, Any]:
    return {name: identities[name] if state is None else state for name, state in states.items()}


def _identity(monoid: Monoid) -> Any:
    return monoid.unseen if isinstance(monoid, NullableObjects) else monoid.identity
