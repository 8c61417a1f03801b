"""The options of writing, read and checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.bus import BusConfig, Lane
from engine.core.errors import BadInput
from engine.core.numbers import whole
from engine.pipeline.options import by_name, choice
from engine.pipeline.source.opening import config_of

KEY, NONE = "key", "none"
FAIL, SKIP = "fail", "skip"
USUAL_HOURS = 24
MOST_HOURS = 24 * 365
_KNOWN = {"topic", "transport", "url", "prefix", "writeid", "order", "malformed", "rememberhours"}


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """See :mod:`engine.pipeline.sink.writer`."""

    topic: str
    config: BusConfig
    write_id: str
    in_order: bool
    skip_malformed: bool
    remember_hours: int

    @classmethod
    def of(cls, given: Mapping[str, str]) -> SinkOptions:
        """Raises :class:`BadInput` naming the option."""
        options = by_name(given, _KNOWN, of=" of writing")
        write_id = options.get("writeid", "")
        if not 0 < len(write_id) <= Lane.LONGEST:
            raise BadInput(
                f"writeId is no text of 1 to {Lane.LONGEST} characters. By it a job that is run again adds what is"
                " missing, and one that means to publish all of it once more is told apart.",
                remedy='Name the write: .option("writeId", "backfill-2026-11-21").',
                field="writeId",
            )
        hours = whole(options.get("rememberhours") or str(USUAL_HOURS))
        if not hours or hours > MOST_HOURS:
            raise BadInput(
                f"rememberHours is {options['rememberhours']!r}, and whole hours from 1 to {MOST_HOURS} are taken.",
                remedy=f"{USUAL_HOURS} is usual.",
                field="rememberHours",
            )
        return cls(
            topic=options["topic"],
            config=config_of(options),
            write_id=write_id,
            in_order=choice(options, "order", KEY, NONE) == KEY,
            skip_malformed=choice(options, "malformed", FAIL, SKIP) == SKIP,
            remember_hours=hours,
        )
