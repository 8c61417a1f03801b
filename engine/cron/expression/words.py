"""An expression said in a sentence, for whoever is editing it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.cron.expression.days import STARS
from engine.cron.expression.every import Every, Never
from engine.cron.expression.schedule import Schedule

# Not those of the calendar module, which change with the locale.
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_ORDINALS = ("", "first", "second", "third", "fourth", "fifth")
_SHORT = 3
#: As many times of day are named one by one.
_MOST_TIMES = 4


def explain(schedule: Schedule) -> str:
    """One sentence that says when it fires, with its zone."""
    if isinstance(schedule.rule, Every):
        every = schedule.rule
        phase = f", {_duration(every.phase)} after" if every.phase else ""
        return f"Every {_duration(every.period)}{phase}, counted from 1970-01-01 00:00 UTC."
    if isinstance(schedule.rule, Never):
        return "Never by itself: after another job, or when somebody triggers it."
    seconds, minutes, hours, numbers, months, weekdays = schedule.fields
    said = [_time(seconds, minutes, hours)]
    by_number = "" if numbers in STARS else _list(numbers, "day of the month", _number)
    by_weekday = "" if weekdays in STARS else _list(weekdays, "weekday", _weekday)
    if by_number and by_weekday:
        joined = "if it is" if schedule.asks_both_days else "and also on"
        said.append(f"on {by_number} {joined} {by_weekday}")
    elif by_number or by_weekday:
        said.append(f"on {by_number or by_weekday}")
    elif _one_by_one(minutes, hours):
        said.append("every day")
    if months not in STARS:
        said.append("in " + _list(months, "month", _month))
    sentence = " ".join(said)
    return f"{sentence[0].upper()}{sentence[1:]}, {schedule.zone} time."


def _duration(seconds: int) -> str:
    parts: list[str] = []
    for unit, size in (("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1)):
        number, seconds = divmod(seconds, size)
        if number:
            parts.append(unit if number == 1 and not parts and not seconds else _counted(number, unit))
    return _joined(parts)


def _counted(number: int, unit: str) -> str:
    return f"{number} {unit}{'' if number == 1 else 's'}"


def _one_by_one(minutes: str, hours: str) -> bool:
    return all(part.isdigit() for part in minutes.split(",") + hours.split(","))


def _time(seconds: str, minutes: str, hours: str) -> str:
    if _one_by_one(minutes, hours) and seconds.isdigit():
        times = [
            f"{int(hour):02}:{int(minute):02}" + (f":{int(seconds):02}" if int(seconds) else "")
            for hour in sorted(set(hours.split(",")), key=int)
            for minute in sorted(set(minutes.split(",")), key=int)
        ]
        if len(times) <= _MOST_TIMES:
            return f"at {_joined(times)}"
    said = [] if seconds == "0" else [_list(seconds, "second")]
    if minutes not in STARS or not said:
        said.append(_list(minutes, "minute"))
    if hours not in STARS:
        said.append(_list(hours, "hour"))
    elif not said[-1].startswith("every "):
        said.append("every hour")
    return " of ".join(said)


def _list(text: str, unit: str, say: Callable[[str], str] = str) -> str:
    """The values of a field; those of the clock are plain numbers and carry their unit."""
    items = text.split(",")
    said = _joined([_item(each, unit, say) for each in items])
    if say is not str or "/" in text or "*" in text or "H" in text:
        return said
    return f"{unit}{'s' if len(items) > 1 or '-' in text else ''} {said}"


def _item(text: str, unit: str, say: Callable[[str], str]) -> str:
    span, slash, step = text.partition("/")
    every = f"every {_ordinal(int(step))} {unit}" if slash and int(step) > 1 else f"every {unit}"
    if span == "*":
        return every
    if text.startswith("H"):
        return f"{every if slash else f'one {unit}'}{_bounds(span, say)} (spread by the job's name)"
    if "-" in span:
        first, _, last = span.partition("-")
        bounds = f"{say(first)} to {say(last)}"
        return f"{every} from {bounds}" if slash else bounds
    return f"{every} from {say(span)} on" if slash else say(span)


def _bounds(spread: str, say: Callable[[str], str]) -> str:
    if "(" not in spread:
        return ""
    first, _, last = spread[2:-1].partition("-")
    return f" from {say(first)} to {say(last)}"


def _number(text: str) -> str:
    if text == "L":
        return "the last day of the month"
    if text in ("LW", "WL"):
        return "the last day from Monday to Friday of the month"
    if text.endswith("W"):
        return f"the day from Monday to Friday nearest to the {_ordinal(int(text[:-1]))}"
    return f"the {_ordinal(int(text))}"


def _weekday(text: str) -> str:
    day, hash_sign, nth = text.partition("#")
    if hash_sign:
        return f"the {_ORDINALS[int(nth)]} {_named(day, _WEEKDAYS, 0)} of the month"
    if len(text) > 1 and text.strip("L") != text:
        return f"the last {_named(text.strip('L'), _WEEKDAYS, 0)} of the month"
    return _named(text, _WEEKDAYS, 0)


def _month(text: str) -> str:
    return _named(text, _MONTHS, 1)


def _named(text: str, names: Sequence[str], first: int) -> str:
    if text.isdigit():
        return names[int(text) - first]
    return next(name for name in names if name[:_SHORT].upper() == text)


def _ordinal(number: int) -> str:
    suffix = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def _joined(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
