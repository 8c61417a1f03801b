"""From a tree to a verdict about one message."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from engine.bus.filters.lexing import FilterError
from engine.bus.filters.naming import written
from engine.bus.filters.parsing import All, Compare, Exists, Literal, Node, Not, Path, Some, parse
from engine.bus.message import Message
from engine.core.clock import from_rfc3339
from engine.core.strict_json import NotJson


class _Missing:
    """Stands for what a message does not have: no comparison with it holds."""

    def __repr__(self) -> str:
        return "missing"


MISSING = _Missing()
_TIMES = ("time", "expirytime")
_ATTRIBUTES = {"key": "partitionkey", "priority": "hbuspriority"}

Judge = Callable[["_Subject"], Any]
#: Whether a payload is hidden whole: decoded, and the JSON that it is.
Hides = Callable[[Any, bytes], bool]


class _Subject:
    """A message whose payload is decoded once, and only if it is asked for."""

    __slots__ = ("_hides", "_payload", "message")

    def __init__(self, message: Message, hides: Hides | None) -> None:
        self.message = message
        self._hides = hides
        self._payload: Any = self

    @property
    def payload(self) -> Any:
        if self._payload is self:
            self._payload = self._read()
        return self._payload

    def _read(self) -> Any:
        if self.message.data_base64 is not None:
            return MISSING
        try:
            payload = self.message.json()
        except NotJson:
            # Any writer may have put it there: it has no fields, as bytes have none.
            return MISSING
        return MISSING if self._hides is not None and self._hides(payload, self.message.payload()) else payload


class MessageFilter:
    """A filter ready for use. Immutable and thread-safe."""

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        tree = parse(text)
        self._judge = _compile(tree)
        #: The payload fields it looks at, as dotted paths without places in arrays, their names as
        #: :func:`~engine.bus.filters.naming.written` says; an empty one is the whole payload.
        self.payload_fields: Sequence[str] = tuple(sorted(fields_of(tree)))

    def matches(self, message: Message, hides: Hides | None = None) -> bool:
        """Whether the message is chosen. What it does not have matches nothing but ``not exists(…)``; a payload that
        ``hides`` says is hidden from whoever asks it does not have."""
        return self._judge(_Subject(message, hides)) is True

    def __repr__(self) -> str:
        return f"MessageFilter({self.text!r})"


def compile_filter(text: str) -> MessageFilter:
    """Read a filter; raises :class:`~engine.bus.filters.lexing.FilterError` with the place of the trouble."""
    return MessageFilter(text)


def _compile(node: Node) -> Judge:
    match node:
        case Literal(value):
            judge: Judge = lambda _: value  # noqa: E731 - one of several
        case Path(steps):
            judge = partial(_look, steps)
        case Exists(Path(steps)):
            judge = partial(_exists, steps)
        case Not(inner):
            judge = _opposite(_compile(inner))
        case All(nodes):
            judge = partial(_together, all, [_compile(each) for each in nodes])
        case Some(nodes):
            judge = partial(_together, any, [_compile(each) for each in nodes])
        case Compare():
            judge = _comparison(node)
    return judge


def _exists(steps: tuple[str | int, ...], subject: _Subject) -> bool:
    return _look(steps, subject) is not MISSING


def _opposite(judge: Judge) -> Judge:
    return lambda subject: judge(subject) is not True


def _together(how: Callable[[Iterable[bool]], bool], judges: Sequence[Judge], subject: _Subject) -> bool:
    return how(judge(subject) is True for judge in judges)


def _comparison(node: Compare) -> Judge:
    left, right = _timed(node.left, node.right), _timed(node.right, node.left)
    one, other, sign = _compile(left), _compile(right), _SIGNS[node.sign]

    def judge(subject: _Subject) -> bool:
        a, b = one(subject), other(subject)
        return False if a is MISSING or b is MISSING else sign(a, b)

    return judge


def _timed(node: Node, beside: Node) -> Node:
    """A text beside an instant is an instant."""
    if not (isinstance(beside, Path) and beside.steps[0] in _TIMES and isinstance(node, Literal)):
        return node
    if isinstance(node.value, tuple):
        return Literal(tuple(_instant(each) for each in node.value))
    return Literal(_instant(node.value))


def _instant(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return from_rfc3339(value)
    except ValueError as error:
        raise FilterError(f"{value!r} is no instant", 0, remedy="Write 2026-11-21T08:00:00Z.") from error


def _look(steps: tuple[str | int, ...], subject: _Subject) -> Any:
    root, *rest = steps
    if root == "payload":
        return _descend(subject.payload, rest)
    if root == "headers":
        return subject.message.extensions.get(str(rest[0]), MISSING)
    value = getattr(subject.message, _ATTRIBUTES.get(str(root), str(root)))
    if root == "priority":
        return value or "normal"
    return _moment(value) if root in _TIMES else value or MISSING


def _moment(text: str) -> Any:
    try:
        return from_rfc3339(text) if text else MISSING
    except ValueError:
        return MISSING


def _descend(value: Any, steps: Sequence[str | int]) -> Any:
    for step in steps:
        if isinstance(step, str) and isinstance(value, dict):
            value = value.get(step, MISSING)
        elif isinstance(step, int) and isinstance(value, list):
            value = value[step] if step < len(value) else MISSING
        else:
            return MISSING
    return value


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _same(a: Any, b: Any) -> bool:
    # True is not 1 here, as in JSON.
    return bool(a == b) and isinstance(a, bool) == isinstance(b, bool)


def _ordered(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Numbers are compared with numbers and texts with texts; anything else is in no order."""
    return lambda a, b: ((_number(a) and _number(b)) or (isinstance(a, str) and isinstance(b, str))) and test(a, b)


def _contains(a: Any, b: Any) -> bool:
    if isinstance(a, str):
        return isinstance(b, str) and b in a
    return isinstance(a, list) and any(_same(each, b) for each in a)


_SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "==": _same,
    "!=": lambda a, b: not _same(a, b),
    "<": _ordered(lambda a, b: a < b),
    "<=": _ordered(lambda a, b: a <= b),
    ">": _ordered(lambda a, b: a > b),
    ">=": _ordered(lambda a, b: a >= b),
    "in": lambda a, b: any(_same(a, each) for each in b),
    "contains": _contains,
    "startswith": lambda a, b: isinstance(a, str) and isinstance(b, str) and a.startswith(b),
    "endswith": lambda a, b: isinstance(a, str) and isinstance(b, str) and a.endswith(b),
}


def fields_of(node: Node) -> set[str]:
    if isinstance(node, Path):
        names = [written(step) for step in node.steps[1:] if isinstance(step, str)]
        return {".".join(names)} if node.steps[0] == "payload" else set()
    if isinstance(node, Exists):
        return fields_of(node.path)
    if isinstance(node, Not):
        return fields_of(node.node)
    if isinstance(node, Compare):
        return fields_of(node.left) | fields_of(node.right)
    if isinstance(node, All | Some):
        return set().union(*(fields_of(each) for each in node.nodes))
    return set()
