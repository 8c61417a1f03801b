"""When an entry of ``beat_schedule`` is due: instants that every beat computes alike, whenever it was started."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from celery.schedules import BaseSchedule, crontab, schedule, solar

from engine.core.errors import BadInput
from engine.cron.beat import crontabs
from engine.cron.expression import FoldPolicy, GapPolicy, Schedule, compile_schedule
from engine.cron.expression.every import LONGEST_PERIOD_S
from engine.cron.expression.offsets import zone
from engine.cron.expression.parsing import Parsed

_DAY_S, _HOUR_S, _MINUTE_S = 86_400, 3_600, 60
#: What a relative interval is rounded to, and the expression of one that is just so long.
_RELATIVE = {_DAY_S: ("day", "0 0 * * *"), _HOUR_S: ("hour", "0 * * * *"), _MINUTE_S: ("minute", "* * * * *")}


@dataclass(frozen=True, slots=True)
class BeatRule:
    """When one entry is due."""

    slots: Schedule
    #: A text that two rules share if they mean the same.
    identity: str
    #: Whether it counts periods, which Celery does from the start of its beat.
    counts: bool = False


def zone_of(app: Any) -> str:
    """The zone of a Celery app's crontabs. Raises ``BadInput`` for one that is not the same on every machine."""
    conf, found = app.conf, app.timezone
    if not conf.timezone and not conf.enable_utc:
        raise BadInput(
            "The app names no time zone, and enable_utc is off: each machine would take its own.",
            remedy="Set timezone, for example timezone = 'Europe/Lisbon'.",
            field="timezone",
        )
    if found is UTC:
        return "UTC"
    if not isinstance(found, ZoneInfo) or found.key is None:
        raise BadInput("The app's timezone has no name of the IANA database.", remedy="Name one.", field="timezone")
    return zone(found.key).name


def rule_of(said: Any, relative: object, zone_name: str) -> BeatRule:
    """The rule of an entry's ``schedule`` and ``relative``. Raises ``BadInput`` for what has no slots of its own."""
    if isinstance(said, crontab) and _is_plain(said):
        pattern = crontabs.pattern_of(said)
        read = Parsed(pattern, None, ())
        slots = Schedule("", read, zone(zone_name), GapPolicy.END, FoldPolicy.FIRST)
        return BeatRule(slots, f"{zone_name} {crontabs.identity_of(said)}")
    expression = interval_expression(said, relative, zone_name)
    slots = compile_schedule(expression, zone_name=zone_name)
    return BeatRule(slots, f"{zone_name} {expression}", counts=expression.startswith("@every"))


def expression_of(said: Any, relative: object, zone_name: str) -> str:
    """The expression that fires when the entry is due. Raises ``BadInput`` where none does."""
    if isinstance(said, crontab) and _is_plain(said):
        crontabs.pattern_of(said)
        return crontabs.expression_of(said)
    return interval_expression(said, relative, zone_name)


def interval_expression(said: Any, relative: object, zone_name: str) -> str:
    """Of an interval: ``@every`` and its length, or the times that a relative one is rounded to."""
    if isinstance(said, schedule) and _is_plain(said):
        said, relative = getattr(said, "run_every", None), said.relative
    seconds = _seconds(said)
    unit = next((unit for unit in _RELATIVE if seconds >= unit), 0) if relative else 0
    if unit:
        word, each = _RELATIVE[unit]
        if seconds == unit:
            return each
        if seconds % unit:
            raise BadInput(
                f"It is relative, so Celery rounds its {_length(seconds)} to the {word}, and it comes sooner than it "
                "says.",
                remedy=f"Write whole {word}s, or a crontab.",
            )
        if unit != _MINUTE_S and zone_name != "UTC":
            raise BadInput(
                f"It is relative, so Celery rounds it to the {word} of {zone_name}; with which {word} it begins "
                "follows from the start of its beat.",
                remedy="Write a crontab, which says so.",
            )
    return f"@every {_length(seconds)}"


def _is_plain(said: BaseSchedule) -> bool:
    """Whether Celery's own class decides when it is due. Raises ``BadInput`` for one with a clock of its own."""
    if said.nowfun is not None:  # type: ignore[attr-defined]
        raise BadInput("It has a clock of its own, nowfun.", remedy="Let the app's timezone say its zone.")
    return type(said) in (crontab, schedule)


def _seconds(said: Any) -> int:
    if isinstance(said, solar):
        raise BadInput(
            f"It follows the sun ({said.event}), and solar schedules are not known here.",
            remedy="Write a crontab, or leave it with Celery's own beat.",
        )
    if isinstance(said, int | float) and not isinstance(said, bool):
        try:
            said = timedelta(seconds=said)
        except (OverflowError, ValueError):
            said = timedelta(0)
    if not isinstance(said, timedelta):
        raise BadInput(
            f"Its schedule is of the class {type(said).__name__}, which is not known here.",
            remedy="Known are crontab, schedule, timedelta, and a number of seconds.",
        )
    seconds, rest = divmod(said, timedelta(seconds=1))
    if rest or not 1 <= seconds <= LONGEST_PERIOD_S:
        raise BadInput(
            "Its interval is not of whole seconds, from one to 366 days.", remedy="Write whole seconds, or a crontab."
        )
    return seconds


def _length(seconds: int) -> str:
    """As ``@every`` has it: 1d, 1h30m, 90s."""
    if seconds < 2 * _MINUTE_S:
        return f"{seconds}s"
    units = (("d", _DAY_S), ("h", _HOUR_S), ("m", _MINUTE_S), ("s", 1))
    text = ""
    for word, unit in units:
        number, seconds = divmod(seconds, unit)
        text += f"{number}{word}" if number else ""
    return text
