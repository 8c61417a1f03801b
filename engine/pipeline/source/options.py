"""The options of the format, read and checked once."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.bus import BusConfig, Extent
from engine.core.clock import from_rfc3339
from engine.core.errors import BadInput
from engine.core.numbers import whole
from engine.pipeline.options import by_name, choice
from engine.pipeline.source.columns import LOST, wanted
from engine.pipeline.source.opening import config_of
from engine.pipeline.source.reached import Reached, end_of, from_json

EARLIEST, LATEST = "earliest", "latest"
_KNOWN = {
    *("topic", "transport", "url", "prefix", "columns", "startingoffsets", "endingoffsets", "startingtime"),
    *("endingtime", "tasks", "maxmessagespertrigger", "maxsecondspertrigger", "failonloss"),
}


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """See :mod:`engine.pipeline.source.datasource`."""

    topic: str
    config: BusConfig
    columns: tuple[str, ...]
    tasks: int
    fail_on_loss: bool
    start: str
    end: str
    from_ms: int | None
    before_ms: int | None
    max_messages: int | None
    max_seconds: float | None

    @classmethod
    def of(cls, given: Mapping[str, str], *, stream: bool = False) -> SourceOptions:
        """Raises :class:`BadInput` naming the option."""
        options = by_name(given, _KNOWN)
        fail_on_loss = choice(options, "failonloss", "true", "false") == "true"
        columns = wanted(options.get("columns", ""))
        if not fail_on_loss and LOST not in columns:
            columns = (*columns, LOST)
        return cls(
            topic=options["topic"],
            config=config_of(options),
            columns=columns,
            tasks=_number(options, "tasks") or os.cpu_count() or 1,
            fail_on_loss=fail_on_loss,
            start=options.get("startingoffsets") or (LATEST if stream else EARLIEST),
            end=options.get("endingoffsets") or LATEST,
            from_ms=_instant(options, "startingtime"),
            before_ms=_instant(options, "endingtime"),
            max_messages=_number(options, "maxmessagespertrigger"),
            max_seconds=_seconds(options, "maxsecondspertrigger"),
        )

    @property
    def claims_beginning(self) -> bool:
        """Whether it says how far it had come, so that what is gone since is a loss."""
        return self.start not in (EARLIEST, LATEST)

    def starting(self, extents: Sequence[Extent]) -> Reached:
        """Where reading begins. Raises :class:`BadInput`."""
        return _offsets(self.start, extents, "startingOffsets")

    def ending(self, extents: Sequence[Extent]) -> Reached:
        """And where it ends."""
        return _offsets(self.end, extents, "endingOffsets")


def _offsets(said: str, extents: Sequence[Extent], field: str) -> Reached:
    if said == EARLIEST:
        return {}
    if said == LATEST:
        return {extent.log: end_of(extent) for extent in extents}
    return from_json(said, field=field)


def _number(options: Mapping[str, str], name: str) -> int | None:
    said = options.get(name, "")
    if not said:
        return None
    if not (number := whole(said)):
        raise BadInput(f"{name} is {said!r}, and a whole number from 1 on is taken.", remedy="Write one.", field=name)
    return number


def _seconds(options: Mapping[str, str], name: str) -> float | None:
    said = options.get(name, "")
    if not said:
        return None
    try:
        seconds = float(said)
    except ValueError:
        seconds = 0.0
    if not 0.001 <= seconds <= 10**9:
        raise BadInput(f"{name} is {said!r}, and seconds from 0.001 on are taken.", remedy="Write 60.", field=name)
    return seconds


def _instant(options: Mapping[str, str], name: str) -> int | None:
    said = options.get(name, "")
    if not said:
        return None
    try:
        return from_rfc3339(said)
    except ValueError as error:
        raise BadInput(
            f"{name} {said!r} is no RFC 3339 instant: {error}.", remedy="Write 2026-11-21T08:00:00Z.", field=name
        ) from error
