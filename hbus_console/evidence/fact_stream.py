"""The way of facts from any process to the keeper: one bounded stream in the store, an entry for what goes at once."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import redis

from engine.core.facts import FactBatch
from engine.core.scripts import load_scripts
from hbus_console.evidence import wire

#: How many facts may wait for the keeper (about 150 bytes each). With it away for longer the oldest are dropped,
#: and the keeper reports the gap.
BACKLOG_LIMIT = 1_000_000
#: How long a writer's last batch is remembered, so that repeating it after a timeout adds nothing.
REMEMBER_S = 600
#: More facts than this no installation has ever emitted.
_MOST_EVER = 10**15

_SCRIPTS = load_scripts(Path(__file__).parent / "lua")


@dataclass(frozen=True)
class Keys:
    """The keys of one installation; they share a hash tag, so that one script may touch them all."""

    prefix: str

    @property
    def log(self) -> str:
        return f"{self.prefix}:{{facts}}:log"

    @property
    def count(self) -> str:
        return f"{self.prefix}:{{facts}}:count"

    @property
    def floor(self) -> str:
        return f"{self.prefix}:{{facts}}:floor"

    def last(self, writer: str) -> str:
        return f"{self.prefix}:{{facts}}:last:{writer}"


class FactStream:
    """A fact sink. A batch repeated after an error is appended once. Raises what the store's client raises."""

    def __init__(self, store: redis.Redis, prefix: str, *, limit: int = BACKLOG_LIMIT) -> None:
        keys = Keys(prefix)
        self._keys = [keys.log, keys.count, keys.floor, keys.last(secrets.token_hex(6))]
        self._append = store.register_script(_SCRIPTS["append_facts"].text)
        self._limit = limit

    def write(self, facts: Sequence[FactBatch]) -> None:
        body, count = wire.encode(facts), sum(batch.count for batch in facts)
        # Python's own hash tells a writer's entry from the one before it, at a fifth of a digest's cost.
        self._append(keys=self._keys, args=[body, count, hash(body), self._limit, REMEMBER_S])


@dataclass(frozen=True)
class Entry:
    """One entry of the stream. ``last`` is the running number of its last fact, counted from 1; 0: it tells none.

    That is what the entry says of itself; see :class:`~hbus_console.evidence.numbering.Numbering` for what is believed.
    """

    id: str
    last: int
    contents: wire.Contents
    #: Why nothing of it could be read.
    broken: str = ""

    @property
    def count(self) -> int:
        """How many facts it was written with."""
        return self.contents.count


class FactReader:
    """The keeper's end of the stream. Raises what the store's client raises."""

    def __init__(self, store: redis.Redis, prefix: str) -> None:
        self._store = store
        self._keys = Keys(prefix)
        self._forget = store.register_script(_SCRIPTS["forget_facts"].text)

    def read(self, after: str, limit: int) -> list[Entry]:
        """At most ``limit`` entries after the entry id ``after``, oldest first; does not wait."""
        answer = cast(Any, self._store.xread({self._keys.log: after}, count=limit))
        return [self._entry(entry, fields) for _, entries in _streams(answer) for entry, fields in entries]

    def came_in(self) -> int:
        """How many facts ever came in, as the store counts them."""
        count = cast("bytes | None", self._store.get(self._keys.count))
        return (_number(count) or 0) if count else 0

    def end(self) -> tuple[str, int]:
        """Id of the newest entry ever added (``0-0`` when there is no stream) and how many facts ever came in."""
        try:
            info = self._store.xinfo_stream(self._keys.log)
        except redis.ResponseError as error:
            if "no such key" not in str(error):
                raise
            return "0-0", 0
        return _text(info["last-generated-id"]), self.came_in()

    def forget(self, through: str, booked: int) -> None:
        """Drop the entries before ``through``: they are booked, up to fact number ``booked``."""
        keys = self._keys
        self._forget(keys=[keys.log, keys.count, keys.floor], args=[through, booked])

    def _entry(self, entry: bytes, fields: dict[bytes, bytes]) -> Entry:
        written = fields.get(b"n", b"")
        last = _number(written)
        try:
            contents = wire.decode(fields[b"f"])
        except (KeyError, ValueError) as error:
            # Foreign bytes under our key must not stop the booking of everything after them.
            return Entry(_text(entry), last or 0, wire.Contents(), broken=f"{type(error).__name__}: {error}")
        if last is None:
            contents.lose(0, f"its facts end with number {written[:40]!r}")
        return Entry(_text(entry), last or 0, contents)


def _number(written: bytes) -> int | None:
    """The running number that ``written`` tells, if it is one."""
    digits = len(written) <= len(str(_MOST_EVER)) and written.isdigit()
    return number if digits and (number := int(written)) <= _MOST_EVER else None


def _streams(answer: Any) -> list[tuple[Any, Any]]:
    """The client's answer in one shape: it is a mapping or a list of pairs, depending on the protocol's version."""
    if not answer:
        return []
    if isinstance(answer, dict):
        # RESP3 wraps the entries of each stream once more.
        return [(name, lists[0] if lists and isinstance(lists[0], list) else lists) for name, lists in answer.items()]
    return [(name, entries) for name, entries in answer]


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
