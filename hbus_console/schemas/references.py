"""What the references within one schema lead to. Nothing ever follows one out of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

Node = Mapping[str, Any]
#: A part of a schema, and the part by which its references are to be read.
Place = tuple[Node, Node]

#: The keywords whose values are references.
WORDS = ("$ref", "$dynamicRef")
_ANCHORS = ("$anchor", "$dynamicAnchor")
#: More digits than the length of any list has.
_MOST_DIGITS = 10


def parts(base: Node, *nodes: Any) -> Iterator[Place]:
    """The schemas among ``nodes``, which lie within ``base``."""
    for node in nodes:
        if isinstance(node, Mapping):
            yield node, _base(node, base)


class References:
    """Those of the schema ``root``. Remembers what it found, so the schema must not change. Not thread-safe."""

    def __init__(self, root: Node) -> None:
        self.root = root
        self._anchors: dict[str, list[Place]] | None = None
        self._found: dict[tuple[int, str], list[Place] | None] = {}

    def targets(self, base: Node, reference: object) -> list[Place] | None:
        """What a ``reference`` that stands within ``base`` may lead to; ``None``: nobody can follow it.

        That is nothing where it leads to a schema of no parts: true, or false.
        """
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        key = id(base), reference
        if key not in self._found:
            self._found[key] = self._targets(base, unquote(reference[1:]))
        return self._found[key]

    def _targets(self, base: Node, pointer: str) -> list[Place] | None:
        if pointer and not pointer.startswith("/"):
            # Which of several of one name is meant may depend on how one got here.
            return self._anchored().get(pointer)
        node: Any = base
        for step in pointer.split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(node, list) and _is_place(name) and int(name) < len(node):
                node = node[int(name)]
            elif isinstance(node, Mapping) and name in node:
                node = node[name]
            else:
                return None
            base = _base(node, base)
        return [] if isinstance(node, bool) else list(parts(base, node)) or None

    def _anchored(self) -> Mapping[str, list[Place]]:
        if self._anchors is None:
            self._anchors = {}
            waiting: list[tuple[Any, Node]] = [(self.root, self.root)]
            while waiting:
                node, outer = waiting.pop()
                base = _base(node, outer)
                if isinstance(node, list):
                    waiting += [(each, base) for each in node]
                if not isinstance(node, Mapping):
                    continue
                waiting += [(each, base) for each in node.values()]
                for word in _ANCHORS:
                    if isinstance(name := node.get(word), str):
                        self._anchors.setdefault(name, []).append((node, base))
        return self._anchors


def _base(node: Any, outer: Node) -> Node:
    """What references within ``node`` begin from: a part with an identity of its own, or what is around it."""
    return node if isinstance(node, Mapping) and isinstance(node.get("$id"), str) else outer


def _is_place(name: str) -> bool:
    return name.isdecimal() and len(name) <= _MOST_DIGITS
