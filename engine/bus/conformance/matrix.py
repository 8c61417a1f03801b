"""Which transport keeps which promise, as a run of the kit has shown it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from engine.bus.conformance.base import NOT_DECLARED
from engine.bus.conformance.promises import PROMISES
from engine.core.sections import section

#: The generated section of a document.
SECTION = "conformance"

_CAPABILITIES = {
    "durable": "messages outlive the store's restart",
    "idempotent_publish": "idempotency keys",
    "exact_keys": "… checked in the act of appending",
    "ordered": "order of publishing, while nothing fails",
    "partitions": "partitions with one owner each",
    "priority": "priorities",
    "pause": "pause of a group",
    "browse": "reading back without consuming, retention",
    "seek": "placing a group in the past",
    "max_bytes": "largest message in bytes",
    "min_bytes": "smallest message in bytes",
}


class Matrix:
    """Collects what became of each test. Not thread-safe."""

    def __init__(self) -> None:
        self._capabilities: dict[str, Mapping[str, Any]] = {}
        self._passed: dict[tuple[str, str], int] = defaultdict(int)
        self._failed: dict[tuple[str, str], int] = defaultdict(int)
        self._skipped: dict[tuple[str, str], set[str]] = defaultdict(set)

    def __bool__(self) -> bool:
        return bool(self._capabilities)

    @property
    def transports(self) -> list[str]:
        return sorted(self._capabilities)

    def declared(self, transport: str, capabilities: Mapping[str, Any]) -> None:
        """What a transport says of itself."""
        self._capabilities[transport] = capabilities

    def add(self, transport: str, numbers: list[str], outcome: str, why: str = "") -> None:
        """One test of some promises: ``passed``, ``failed``, or ``skipped`` and why."""
        for number in numbers:
            place = number, transport
            if outcome == "passed":
                self._passed[place] += 1
            elif outcome == "failed":
                self._failed[place] += 1
            else:
                self._skipped[place].add(why)

    def cell(self, number: str, transport: str) -> str:
        """``kept``, ``kept; not declared: …``, ``not declared: …``, ``BROKEN``, or ``not run``."""
        place = number, transport
        if failed := self._failed[place]:
            return f"BROKEN ({failed} of {failed + self._passed[place]})"
        said = ["kept"] if self._passed[place] else []
        names = {name for why in self._skipped[place] if why.startswith(NOT_DECLARED) for name in _names(why)}
        if names:
            said.append(NOT_DECLARED + ", ".join(sorted(names)))
        said += sorted(why for why in self._skipped[place] if not why.startswith(NOT_DECLARED))
        return "; ".join(said) or "not run"

    def capability(self, name: str, transport: str) -> str:
        has = self._capabilities[transport]
        value = has[name]
        if isinstance(value, bool):
            return ("beside it" if name in has["beside"] else "yes") if value else "no"
        return f"{value:,}"

    def markdown(self) -> str:
        """Both tables."""
        names = self.transports
        lines = [*_head("", names)]
        lines += [
            _line(words, [self.capability(name, each) for each in names]) for name, words in _CAPABILITIES.items()
        ]
        lines += ["", *_head("promise", names)]
        lines += [
            _line(f"{number}: {words}", [self.cell(number, each) for each in names])
            for number, words in PROMISES.items()
        ]
        return "\n".join(lines)

    def text(self) -> list[str]:
        """The promises for a terminal."""
        width = max(len(words) for words in PROMISES.values())
        columns = {
            name: max(len(name), *(len(self.cell(number, name)) for number in PROMISES)) for name in self.transports
        }
        lines = [" " * (width + 8) + "  ".join(name.ljust(size) for name, size in columns.items())]
        for number, words in PROMISES.items():
            cells = "  ".join(self.cell(number, name).ljust(size) for name, size in columns.items())
            lines.append(f"{number:<4}  {words.ljust(width)}  {cells}".rstrip())
        return lines


def columns_of(document: str) -> list[str]:
    """The transports whose columns a document shows."""
    head = section(document, SECTION).partition("\n")[0]
    return [cell.strip().strip("`") for cell in head.strip("|").split("|")[1:]]


def _names(why: str) -> list[str]:
    return why.removeprefix(NOT_DECLARED).split(", ")


def _head(first: str, names: list[str]) -> list[str]:
    return [_line(first, [f"`{name}`" for name in names]), "|--" * (len(names) + 1) + "|"]


def _line(first: str, cells: list[str]) -> str:
    return f"| {first} | {' | '.join(cells)} |"
