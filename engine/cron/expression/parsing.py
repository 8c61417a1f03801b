"""An expression read: its own zone, its descriptor or its fields. What it cannot mean is refused where it stands."""

from __future__ import annotations

import re
from dataclasses import dataclass

from engine.cron.expression.days import STARS, read_days
from engine.cron.expression.errors import BadExpression, UnknownZone
from engine.cron.expression.every import Every, Never, read_every
from engine.cron.expression.fields import HOUR, MINUTE, MONTH, SECOND, Field, Piece, item
from engine.cron.expression.offsets import Zone, zone
from engine.cron.expression.pattern import Pattern

#: Characters.
LONGEST_SPEC = 500

DESCRIPTORS = {
    "@YEARLY": "0 0 1 1 *",
    "@ANNUALLY": "0 0 1 1 *",
    "@MONTHLY": "0 0 1 * *",
    "@WEEKLY": "0 0 * * 0",
    "@DAILY": "0 0 * * *",
    "@MIDNIGHT": "0 0 * * *",
    "@HOURLY": "0 * * * *",
}
_ZONE = re.compile(r"\s*(?:CRON_)?TZ=(\S*)\s*")
_PRINTABLE = re.compile(r"[\t\n -~]*")


@dataclass(frozen=True, slots=True)
class Parsed:
    """What an expression says."""

    rule: Pattern | Every | Never
    #: The zone that it names itself.
    zone: Zone | None
    #: Its fields in capitals from seconds to weekday; empty for ``@every`` and ``@never``.
    fields: tuple[str, ...]


def parse(spec: str, job: str) -> Parsed:
    """Read ``spec``; ``job`` is whose name spreads ``H``. Raises :class:`BadExpression`."""
    if len(spec) > LONGEST_SPEC:
        raise BadExpression(LONGEST_SPEC, f"it is longer than {LONGEST_SPEC} characters", "Make several jobs of it.")
    clean = _PRINTABLE.match(spec)
    if clean is None or clean.end() < len(spec):
        at = clean.end() if clean else 0
        raise BadExpression(at, f"{spec[at]!r} is no character of an expression", "Write it in plain ASCII.")
    own_zone, begin = None, 0
    if found := _ZONE.match(spec):
        own_zone, begin = _own_zone(found), found.end()
    pieces = [Piece(each[0].upper(), each.start() + begin) for each in re.finditer(r"\S+", spec[begin:])]
    if not pieces:
        raise BadExpression(len(spec), "it is empty", "Write five fields: minute, hour, day, month, weekday.")
    if pieces[0].text.startswith("@"):
        return _descriptor(pieces, own_zone, job)
    return _fields(pieces, own_zone, job)


def _own_zone(found: re.Match[str]) -> Zone:
    try:
        return zone(found[1])
    except UnknownZone as error:
        raise BadExpression(found.start(1), error.reason, error.remedy) from error


def _descriptor(pieces: list[Piece], own_zone: Zone | None, job: str) -> Parsed:
    name, *more = pieces
    if name.text == "@EVERY":
        if not more:
            raise name.refuse("@every says no period", "Write for example @every 90s.")
        rule = read_every(more.pop(0))
        read = Parsed(rule, own_zone, ())
    elif name.text == "@NEVER":
        read = Parsed(Never(), own_zone, ())
    elif name.text in DESCRIPTORS:
        written = parse(DESCRIPTORS[name.text], job)
        read = Parsed(written.rule, own_zone, written.fields)
    elif name.text == "@REBOOT":
        raise name.refuse("a cluster is never started as one", "Trigger the job from what starts the machine.")
    else:
        known = ", ".join(each.lower() for each in DESCRIPTORS)
        raise name.refuse(f"{name.text.lower()} is not known", f"Known are {known}, @every and @never.")
    if more:
        raise more[0].refuse(f"nothing stands after {name.text.lower()}", "Take out the rest.")
    return read


def _fields(pieces: list[Piece], own_zone: Zone | None, job: str) -> Parsed:
    if len(pieces) < 5:
        end = pieces[-1].at + len(pieces[-1].text)
        remedy = "Write five fields: minute, hour, day of the month, month, day of the week; or six, seconds first."
        raise BadExpression(end, f"{len(pieces)} of its five fields are there", remedy)
    if len(pieces) > 6:
        remedy = "Take out the year, which no job needs; six fields begin with seconds and end with the weekday."
        raise pieces[6].refuse("a seventh field is not known", remedy)
    seconds = pieces[0] if len(pieces) == 6 else Piece("0", pieces[0].at)
    minutes, hours, numbers, months, weekdays = pieces[-5:]
    for piece, of in ((seconds, SECOND), (minutes, MINUTE), (hours, HOUR), (months, MONTH)):
        if "?" in piece.text:
            raise piece.refuse(f"? is not known in the {of.name} field", "Write *.", part="?")
    rule = Pattern(
        _set(SECOND, seconds, job),
        _set(MINUTE, minutes, job),
        _set(HOUR, hours, job),
        read_days(numbers, weekdays, job),
        _set(MONTH, months, job),
        keeps_spacing=minutes.text.startswith("*") or hours.text.startswith("*"),
    )
    if not rule.ever_fires:
        # Only a day of the month can be missing in every year, and a fifth weekday never is.
        at_fault = numbers if numbers.text not in STARS else weekdays
        remedy = "Write a day that one of its months has; L is the last day of any."
        raise at_fault.refuse("no month that it allows has such a day, so it would never fire", remedy)
    return Parsed(rule, own_zone, tuple(piece.text for piece in (seconds, minutes, hours, numbers, months, weekdays)))


def _set(of: Field, piece: Piece, job: str) -> int:
    bits = 0
    for each in piece.items():
        bits |= item(of, each, job)
    return bits
