"""Parses the text of a policy such as `CountWindow(100) | TimeWindow(60)`: calls with literals.

The text is never evaluated, and can call constructors of `mta.policies` and nothing else. A policy with a
function of the user's has a text from which it cannot be made.
"""

from __future__ import annotations

import ast
import inspect

from mta import policies
from mta.frames.texts import policy_of
from mta.monoids.expressions import BadExpression, parsed
from mta.policies import Policy


def policy_from_text(text: str) -> Policy | None:
    """The policy whose fingerprint, or code, is the text; None for "None". Raises BadExpression."""
    expression = parsed(text, "policy such as CountWindow(100) | TimeWindow(60)")
    if isinstance(expression, ast.Constant) and expression.value is None:
        return None
    try:
        return policy_of(expression, _KINDS)
    except RecursionError:
        raise BadExpression(f"not a policy: a union of too many, {text[:40]!r}…") from None
    except ValueError as error:
        raise BadExpression(f"{text!r}: {error}") from None


_KINDS = {
    name: kind
    for name, kind in vars(policies).items()
    if isinstance(kind, type)
    and issubclass(kind, Policy)
    and kind is not policies.Union
    and not name.startswith("_")
    and not inspect.isabstract(kind)
}
