"""The sides of one topic put together: the same texts by the same numbers, and its rows by ranges of their ids' hashes.

A range holds all that is told of the messages in it, wherever it lies, and so is compared by itself, in little memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.pipeline.audit.sides import Array, Side
from engine.pipeline.audit.summing import NONE

#: About how many rows are compared at once.
ROWS_AT_ONCE = 1_000_000
#: Columns that name texts, and of which list. Messages are aimed at subscriptions.
_LISTS = {
    "source": "source",
    "run_source": "source",
    "target": "subscription",
    "subscription": "subscription",
    "kind": "kind",
}


@dataclass(frozen=True, slots=True)
class Gathered:
    """The files of one kind, in the order of the lake, those of one log beside each other."""

    sides: Sequence[Side]
    #: By file: of which log it is.
    logs: NDArray[np.int32]
    #: By file and list: the numbers of the texts that its columns name, the last one for none.
    numbers: Sequence[Mapping[str, NDArray[np.int32]]]

    @property
    def rows(self) -> int:
        return sum(side.rows for side in self.sides)

    def between(self, low: int, high: int | None, columns: Iterable[str]) -> dict[str, Array]:
        """All rows whose id has a hash from ``low`` to below ``high``, or to the end. See :meth:`of`."""
        ends = [
            (_place(side.columns["id"], low), side.rows if high is None else _place(side.columns["id"], high))
            for side in self.sides
        ]
        return self.of([slice(start, end) for start, end in ends], columns)

    def of(self, which: Sequence[slice | NDArray[np.bool_]], columns: Iterable[str]) -> dict[str, Array]:
        """Some of each file, those of one file after those of another, and ``file``: the place of theirs."""
        made: dict[str, Array] = {}
        parts: list[Array] = []
        for name in columns:
            parts = [side.columns[name][some] for side, some in zip(self.sides, which, strict=True)]
            if name in _LISTS:
                parts = [numbers[_LISTS[name]][part] for numbers, part in zip(self.numbers, parts, strict=True)]
            made[name] = np.concatenate(parts) if parts else np.empty(0, np.int64)
        lengths = [len(part) for part in parts]
        made["file"] = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
        return made


@dataclass(frozen=True, slots=True)
class Topic:
    """All that is compared of one topic."""

    messages: Gathered
    published: Gathered
    deliveries: Gathered
    sources: Sequence[str]
    subscriptions: Sequence[str]
    kinds: Sequence[str]
    logs: Sequence[str]

    def ranges(self) -> Iterator[tuple[int, int | None]]:
        """Hashes are spread evenly; the last range has no end."""
        rows = self.messages.rows + self.published.rows + self.deliveries.rows
        parts = max(1, -(-rows // ROWS_AT_ONCE))
        edges = [-(2**63) + 2**64 * number // parts for number in range(parts)]
        yield from zip(edges, [*edges[1:], None], strict=True)


def named(hashes: Array, sources: Array) -> Array:
    """Of ids or keys, and the numbers of their sources: one of two sources is two.

    Numbers are few, so what is sorted by its hash is still nearly sorted, and soon sorted again.
    """
    return hashes ^ sources


def gather(
    messages: Sequence[Side], published: Sequence[Side], deliveries: Sequence[Side], subscriptions: Iterable[str]
) -> Topic:
    """Each in the order of the lake; ``subscriptions`` are those that are known from elsewhere."""
    texts: dict[str, set[str]] = {name: set() for name in (*_LISTS.values(), "log")}
    texts["subscription"].update(subscriptions)
    for side in (*messages, *published, *deliveries):
        texts["log"].add(side.file.log)
        for name, of_side in side.names.items():
            texts[_LISTS[name]].update(of_side)
    # In an order that does not depend on the files.
    numbers = {name: {text: number for number, text in enumerate(sorted(of_all))} for name, of_all in texts.items()}
    return Topic(
        _gathered(messages, numbers),
        _gathered(published, numbers),
        _gathered(deliveries, numbers),
        sources=list(numbers["source"]),
        subscriptions=list(numbers["subscription"]),
        kinds=list(numbers["kind"]),
        logs=list(numbers["log"]),
    )


def _gathered(sides: Sequence[Side], numbers: Mapping[str, Mapping[str, int]]) -> Gathered:
    by_log: dict[str, list[Side]] = {}
    for side in sides:
        by_log.setdefault(side.file.log, []).append(side)
    ordered = [side for log in sorted(by_log) for side in by_log[log]]
    return Gathered(
        ordered,
        np.array([numbers["log"][side.file.log] for side in ordered], np.int32),
        [
            {
                _LISTS[name]: np.array([*(numbers[_LISTS[name]][text] for text in of_side), NONE], np.int32)
                for name, of_side in side.names.items()
            }
            for side in ordered
        ],
    )


def _place(ids: Array, edge: int) -> int:
    return int(np.searchsorted(ids, edge))
