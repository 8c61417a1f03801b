"""From words to a tree, by recursive descent; each rule of the grammar is a method.

::

    either     = both { "or" both }
    both       = negation { "and" negation }
    negation   = "not" negation | comparison
    comparison = operand [ sign operand ]
    operand    = literal | list | path | "exists" "(" path ")" | "(" either ")"
    path       = name { "." name | "[" number "]" }
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec

from engine.bus.filters.lexing import FilterError, Word, words

#: How deep parentheses and negations may nest.
DEEPEST = 20
#: The most parts a filter may have.
MOST_NODES = 200
#: The longest list of literals.
LONGEST_LIST = 100

SIGNS = ("==", "!=", "<", "<=", ">", ">=", "in", "contains", "startswith", "endswith")
#: What a path may begin with: names of CloudEvents attributes, and two that hold more.
ATTRIBUTES = (
    "id", "source", "type", "subject", "time", "key", "correlationid", "causationid", "expirytime", "priority",
    "dataschema", "dataclassification",
)  # fmt: skip
ROOTS = (*ATTRIBUTES, "headers", "payload")
_KEYWORDS = {"and", "or", "not", "exists", "true", "false", "null", *SIGNS[6:]}

Scalar = str | int | float | bool | None


class Literal(msgspec.Struct, frozen=True, tag=True):
    value: Scalar | tuple[Scalar, ...]


class Path(msgspec.Struct, frozen=True, tag=True):
    """``steps[0]`` is one of :data:`ROOTS`; a number is a place in an array."""

    steps: tuple[str | int, ...]


class Exists(msgspec.Struct, frozen=True, tag=True):
    path: Path


class Compare(msgspec.Struct, frozen=True, tag=True):
    left: Node
    sign: str
    right: Node


class Not(msgspec.Struct, frozen=True, tag=True):
    node: Node


class All(msgspec.Struct, frozen=True, tag=True):
    nodes: tuple[Node, ...]


class Some(msgspec.Struct, frozen=True, tag=True):
    nodes: tuple[Node, ...]


Node = Literal | Path | Exists | Compare | Not | All | Some


def parse(text: str) -> Node:
    """The tree of ``text``; raises :class:`FilterError` naming the place."""
    return _Parser(list(words(text))).whole()


class _Parser:
    def __init__(self, said: list[Word]) -> None:
        self._words = said
        self._at = 0
        self._nodes = 0
        self._depth = 0

    def whole(self) -> Node:
        if self._next.kind == "end":
            raise FilterError("The filter is empty", 0, remedy='Write for example: type == "booking.cancelled"')
        found = self._either()
        if self._next.kind != "end":
            raise FilterError(f"{self._next.text!r} was not expected here", self._next.at)
        return found

    @property
    def _next(self) -> Word:
        return self._words[self._at]

    def _take(self) -> Word:
        word = self._next
        self._at += 1
        return word

    def _is(self, text: str) -> bool:
        """Take the next word if it is this sign or keyword."""
        word = self._next
        if word.kind in ("sign", "name") and word.text == text:
            self._at += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._is(text):
            got = self._next.text or "the end"
            raise FilterError(f"{text!r} is missing before {got!r}", self._next.at)

    def _count(self) -> None:
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise FilterError("The filter has too many parts", self._next.at, remedy=f"Use at most {MOST_NODES}.")

    def _either(self) -> Node:
        return self._chain("or", self._both, Some)

    def _both(self) -> Node:
        return self._chain("and", self._negation, All)

    def _chain(self, word: str, part: Callable[[], Node], made: type[Some] | type[All]) -> Node:
        nodes = [part()]
        while self._is(word):
            nodes.append(part())
        return nodes[0] if len(nodes) == 1 else made(tuple(nodes))

    def _negation(self) -> Node:
        begun = self._next.at
        if not self._is("not"):
            return self._comparison()
        self._deeper(begun)
        found: Node = Not(self._negation())
        self._depth -= 1
        return found

    def _comparison(self) -> Node:
        left = self._operand()
        word = self._next
        if word.kind not in ("sign", "name") or word.text not in SIGNS:
            return left
        self._take()
        right = self._operand()
        if word.text == "in" and not (isinstance(right, Literal) and isinstance(right.value, tuple)):
            raise FilterError("'in' takes a list", word.at, remedy='Write key in ["a", "b"].')
        if word.text != "in" and isinstance(right, Literal) and isinstance(right.value, tuple):
            raise FilterError(f"{word.text!r} takes no list", word.at, remedy="Use in.")
        self._count()
        return Compare(left, word.text, right)

    def _operand(self) -> Node:
        self._count()
        word = self._take()
        if word.kind in ("string", "number"):
            return Literal(self._finite(word))
        if word.text == "(" and word.kind == "sign":
            self._deeper(word.at)
            found = self._either()
            self._expect(")")
            self._depth -= 1
            return found
        if word.text == "[" and word.kind == "sign":
            return self._list(word)
        if word.kind == "name":
            return self._named(word)
        raise FilterError(f"A value is missing before {word.text or 'the end'!r}", word.at)

    def _named(self, word: Word) -> Node:
        constants: dict[str, Scalar] = {"true": True, "false": False, "null": None}
        if word.text in constants:
            return Literal(constants[word.text])
        if word.text == "exists":
            self._expect("(")
            path = self._path(self._take())
            self._expect(")")
            return Exists(path)
        if word.text in _KEYWORDS:
            raise FilterError(f"A value is missing before {word.text!r}", word.at)
        return self._path(word)

    def _path(self, word: Word) -> Path:
        if word.kind != "name" or word.text not in ROOTS:
            raise FilterError(
                f"{word.text or 'the end'!r} is nothing a message has",
                word.at,
                remedy=f"Use one of {', '.join(ROOTS)}.",
            )
        steps: list[str | int] = [word.text]
        while True:
            if self._is("."):
                step = self._take()
                if step.kind == "string":
                    steps.append(str(step.value))
                elif step.kind == "name":
                    steps.append(step.text)
                else:
                    raise FilterError("A name is missing after the dot", step.at)
            elif self._next.text == "[" and self._next.kind == "sign":
                self._take()
                place = self._take()
                if place.kind != "number" or not isinstance(place.value, int) or place.value < 0:
                    raise FilterError("A place in an array is a whole number from 0", place.at)
                steps.append(place.value)
                self._expect("]")
            else:
                break
        return self._checked(tuple(steps), word)

    @staticmethod
    def _checked(steps: tuple[str | int, ...], word: Word) -> Path:
        if steps[0] in ATTRIBUTES and len(steps) > 1:
            raise FilterError(f"{steps[0]} has no parts", word.at)
        if steps[0] == "headers" and (len(steps) != 2 or not isinstance(steps[1], str)):
            raise FilterError("headers takes one name", word.at, remedy="Write headers.tenant.")
        return Path(steps)

    def _list(self, begun: Word) -> Literal:
        values: list[Scalar] = []
        while not self._is("]"):
            if values:
                self._expect(",")
            word = self._take()
            constants: dict[str, Scalar] = {"true": True, "false": False, "null": None}
            if word.kind in ("string", "number"):
                values.append(self._finite(word))
            elif word.kind == "name" and word.text in constants:
                values.append(constants[word.text])
            else:
                raise FilterError("A list holds texts, numbers, true, false and null", word.at)
            if len(values) > LONGEST_LIST:
                raise FilterError("The list is too long", begun.at, remedy=f"Use at most {LONGEST_LIST} values.")
        return Literal(tuple(values))

    def _deeper(self, at: int) -> None:
        self._depth += 1
        if self._depth > DEEPEST:
            raise FilterError("The filter is nested too deeply", at, remedy=f"Use at most {DEEPEST} levels.")

    @staticmethod
    def _finite(word: Word) -> Scalar:
        if isinstance(word.value, float) and not math.isfinite(word.value):
            raise FilterError("The number is too large", word.at)
        return word.value
