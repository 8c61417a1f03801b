"""A filter as it is told to somebody who must not learn what it asks about some fields."""

from __future__ import annotations

import json
from collections.abc import Callable

from engine.bus.filters.judging import fields_of
from engine.bus.filters.naming import written
from engine.bus.filters.parsing import All, Compare, Exists, Literal, Node, Not, Path, Scalar, Some, parse

#: A payload field that a filter looks at, as :attr:`~.judging.MessageFilter.payload_fields` has it → the field to be
#: named instead of all that is said of it; ``None``: that may be told.
Kept = Callable[[str], str | None]


def told(text: str, kept: Kept) -> str:
    """The filter without what it asks about the fields that ``kept`` names: neither the value nor the sign, nor what
    else the field is compared with, for with the messages that matched each of these would tell the value. A filter
    that asks about none of them is told as it was written.

    ``payload.guest.name == "Ana" and key == "H-1"`` becomes ``payload.guest.name … and key == "H-1"``.
    """
    tree = parse(text)
    return _said(tree, kept) if any(kept(field) is not None for field in fields_of(tree)) else text


def _said(node: Node, kept: Kept) -> str:
    match node:
        case All(nodes):
            said = " and ".join(_part(each, kept) for each in nodes)
        case Some(nodes):
            said = " or ".join(_part(each, kept) for each in nodes)
        case Not(inner):
            said = f"not {_part(inner, kept)}"
        case Compare(left, sign, right):
            said = _instead(node, kept) or f"{_operand(left, kept)} {sign} {_operand(right, kept)}"
        case Exists(path):
            said = _instead(node, kept) or f"exists({_path(path)})"
        case Path():
            said = _instead(node, kept) or _path(node)
        case Literal(value):
            said = f"[{', '.join(map(_literal, value))}]" if isinstance(value, tuple) else _literal(value)
    return said


def _instead(node: Node, kept: Kept) -> str:
    """What stands for a node that asks about a kept field; empty: it may be told."""
    named = sorted({field for each in fields_of(node) if (field := kept(each)) is not None})
    return " ".join(f"payload.{field} …" if field else "payload …" for field in named)


def _part(node: Node, kept: Kept) -> str:
    return f"({_said(node, kept)})" if isinstance(node, All | Some) else _said(node, kept)


def _operand(node: Node, kept: Kept) -> str:
    return f"({_said(node, kept)})" if isinstance(node, All | Some | Not | Compare) else _said(node, kept)


def _path(path: Path) -> str:
    root, *rest = path.steps
    return str(root) + "".join(f"[{step}]" if isinstance(step, int) else f".{written(step)}" for step in rest)


def _literal(value: Scalar) -> str:
    return json.dumps(value, ensure_ascii=False)
