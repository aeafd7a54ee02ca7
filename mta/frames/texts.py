"""Policies out of the syntax tree of a text such as `CountWindow(100) | TimeWindow(60)`: calls with literals.

Nothing is evaluated: a text from a store can call the constructors that it is allowed and nothing else.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from mta.frames.policies import CountWindow, Policy, TimeWindow

#: The policies that a frame consists of.
FRAMES: Mapping[str, type[Policy]] = {"CountWindow": CountWindow, "TimeWindow": TimeWindow}


def policy_of(node: ast.expr, kinds: Mapping[str, type[Policy]] = FRAMES) -> Policy:
    """The policy that a part of a text says, of some kinds. Raises ValueError if it says none."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return policy_of(node.left, kinds) | policy_of(node.right, kinds)
    if not isinstance(node, ast.Call):
        raise ValueError(f"expected a call such as CountWindow(100), got {ast.unparse(node)}")
    name = ast.unparse(node.func).removeprefix("policies.")
    if name not in kinds:
        raise ValueError(f"{name} is not the name of a policy, of {', '.join(sorted(kinds))}")
    if any(keyword.arg is None for keyword in node.keywords):
        raise ValueError("expected name=value, got **")
    try:
        arguments = list(map(ast.literal_eval, node.args))
        options = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in node.keywords}
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise ValueError(f"expected literals in {ast.unparse(node)}") from None
    try:
        return kinds[name](*arguments, **options)
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        raise ValueError(str(error)) from None
