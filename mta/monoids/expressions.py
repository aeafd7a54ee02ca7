"""Parses the text of a monoid such as `Fields(peak=Max("temp"))`: calls with literals.

The text is never evaluated. A text from a store can call constructors of the catalogue and nothing else.
"""

from __future__ import annotations

import ast
import inspect

from mta import monoids
from mta.frames.texts import policy_of
from mta.monoids.base import Monoid
from mta.monoids.nulls import skipping_nulls
from mta.monoids.over import Over

#: Longer texts and larger numbers are refused: a state of 2^24 bits already takes 2 MB.
LONGEST, LARGEST = 1 << 16, 1 << 24


class BadExpression(ValueError):
    """The text is no monoid of the catalogue."""


def parsed(text: str, what: str) -> ast.expr:
    """The expression that a text is, not evaluated. Raises BadExpression, which says what the text is not."""
    if len(text) > LONGEST:
        raise BadExpression(f"not a {what}: a text of {len(text):,} characters")
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise BadExpression(f"not a {what}: {text!r}") from None


def monoid_from_text(text: str) -> Monoid:
    """The monoid whose fingerprint, or code, is the text. Raises BadExpression."""
    call = parsed(text, 'monoid such as Max() or Fields(peak=Max("temp"))')
    try:
        return _built(call)
    except BadExpression as error:
        raise BadExpression(f"{text!r}: {error}") from None


def _built(node: ast.expr) -> Monoid:
    if not isinstance(node, ast.Call):
        raise BadExpression(f"expected a call such as Max(), got {ast.unparse(node)}")
    name = ast.unparse(node.func).removeprefix("monoids.")
    if name == skipping_nulls.__name__ and len(node.args) == 1 and not node.keywords:
        return skipping_nulls(_built(node.args[0]))
    kind = getattr(monoids, name, None) if name in monoids.__all__ else None
    if not (isinstance(kind, type) and issubclass(kind, Monoid)) or inspect.isabstract(kind):
        raise BadExpression(f"{name} is not the name of a monoid in mta.monoids")
    if any(keyword.arg is None for keyword in node.keywords):
        raise BadExpression("expected name=value, got **")
    arguments = [_value(argument) for argument in node.args]
    options = {str(keyword.arg): _value(keyword.value) for keyword in node.keywords}
    try:
        return kind(*arguments, **options)
    except (TypeError, ValueError, ImportError) as error:
        raise BadExpression(str(error)) from None


def _value(node: ast.expr) -> object:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "over":
        return _over(node.func.value, node)
    if isinstance(node, ast.Call):
        return _built(node)
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise BadExpression(f"expected a literal or a monoid, got {ast.unparse(node)}") from None
    if isinstance(value, (int, float)) and not -LARGEST <= value <= LARGEST:
        raise BadExpression(f"expected a number up to {LARGEST:,}, got {ast.unparse(node)}")
    return value


def _over(monoid: ast.expr, call: ast.Call) -> Over:
    """A field with a frame of its own."""
    if len(call.args) != 1 or call.keywords:
        raise BadExpression(f"expected one frame in {ast.unparse(call)}")
    try:
        return Over(_built(monoid), policy_of(call.args[0]))
    except BadExpression:
        raise
    except (ValueError, RecursionError) as error:
        raise BadExpression(str(error) or f"too many frames in {ast.unparse(call)[:40]}…") from None
