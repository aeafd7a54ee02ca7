"""Parses the text of a policy such as `CountWindow(100) | TimeWindow(60)`: calls with literals.

The text is never evaluated, and can call constructors of `mta.policies` and nothing else. A policy with a
function of the user's has a text from which it cannot be made.
"""

from __future__ import annotations

import ast
import inspect

from mta import policies
from mta.monoids.expressions import LONGEST, BadExpression
from mta.policies import Policy


def policy_from_text(text: str) -> Policy | None:
    """The policy whose fingerprint, or code, is the text; None for "None". Raises BadExpression."""
    if len(text) > LONGEST:
        raise BadExpression(f"not a policy such as CountWindow(100): a text of {len(text):,} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise BadExpression(f"not a policy such as CountWindow(100) | TimeWindow(60): {text!r}") from None
    if isinstance(tree.body, ast.Constant) and tree.body.value is None:
        return None
    try:
        return _built(tree.body)
    except RecursionError:
        raise BadExpression(f"not a policy: a union of too many, {text[:40]!r}…") from None
    except BadExpression as error:
        raise BadExpression(f"{text!r}: {error}") from None


def _built(node: ast.expr) -> Policy:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _built(node.left) | _built(node.right)
    if not isinstance(node, ast.Call):
        raise BadExpression(f"expected a call such as CountWindow(100), got {ast.unparse(node)}")
    name = ast.unparse(node.func).removeprefix("policies.")
    kind = None if name.startswith("_") else getattr(policies, name, None)
    if not (isinstance(kind, type) and issubclass(kind, Policy) and kind is not policies.Union) or (
        inspect.isabstract(kind)
    ):
        raise BadExpression(f"{name} is not the name of a policy in mta.policies")
    if any(keyword.arg is None for keyword in node.keywords):
        raise BadExpression("expected name=value, got **")
    try:
        arguments = list(map(ast.literal_eval, node.args))
        options = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in node.keywords}
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise BadExpression(f"expected literals in {ast.unparse(node)}") from None
    try:
        return kind(*arguments, **options)
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        raise BadExpression(str(error)) from None
