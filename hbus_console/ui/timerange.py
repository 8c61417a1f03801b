"""The one time range that holds on every page and lives in the address."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from django.http import HttpRequest
from django.utils import timezone

from engine.core.clock import Clock, SystemClock
from engine.core.errors import BadInput
from engine.core.numbers import whole

#: Name in the address -> (seconds, words).
PRESETS: dict[str, tuple[int, str]] = {
    "15m": (15 * 60, "Last 15 minutes"),
    "1h": (3_600, "Last hour"),
    "3h": (3 * 3_600, "Last 3 hours"),
    "24h": (24 * 3_600, "Last 24 hours"),
    "7d": (7 * 86_400, "Last 7 days"),
}
DEFAULT = "1h"
#: What an address calls it. Scripts carry these from page to page, so no form's field has one of these names.
PARAMETERS = ("range", "from", "to")
#: A range longer than this is refused: nothing on a page is kept or readable beyond it.
#: The beginning of the year 9999.
END_OF_TIME_MS = 253_370_764_800_000
LONGEST_MS = 366 * 86_400_000


@dataclass(frozen=True)
class TimeRange:
    """Milliseconds since the epoch, UTC, end exclusive. ``query`` is what links carry on; empty where the address names
    none, for a page may then show more than the last hour."""

    start_ms: int
    end_ms: int
    label: str
    query: str
    #: Whether the range ends now and moves on.
    moving: bool = True

    @property
    def phrase(self) -> str:
        """The label inside a sentence: ``last hour``."""
        return self.label[0].lower() + self.label[1:]

    @property
    def from_input(self) -> str:
        """The start as a ``datetime-local`` field takes it, in the console's zone."""
        return _input(self.start_ms)

    @property
    def to_input(self) -> str:
        """The end, likewise."""
        return _input(self.end_ms)


def named_in(request: HttpRequest) -> bool:
    """Whether the address names a range. Some pages show all there is where it does not."""
    return any(request.GET.get(name) for name in PARAMETERS)


def time_range(request: HttpRequest, clock: Clock | None = None) -> TimeRange:
    """The range this request asks for, read once: ``?range=3h`` or ``?from=…&to=…`` (RFC 3339 or epoch ms).

    A malformed range falls back to the default and is said on the page through :func:`problem`; use
    :func:`read_range` where it must be refused (endpoints).
    """
    found: TimeRange | None = getattr(request, "_hbus_range", None)
    if found is None:
        try:
            found = read_range(request, clock)
        except BadInput as refused:
            request._hbus_range_problem = refused  # type: ignore[attr-defined]
            found = _preset(DEFAULT, (clock or SystemClock()).now_ms())
        request._hbus_range = found  # type: ignore[attr-defined]
    return found


def problem(request: HttpRequest) -> BadInput | None:
    """Why the address's range was not taken, if it was not."""
    found: BadInput | None = getattr(request, "_hbus_range_problem", None)
    return found


def read_range(request: HttpRequest, clock: Clock | None = None, *, zoned: bool = False) -> TimeRange:
    """Like :func:`time_range`, but raises ``BadInput`` naming the parameter at fault.

    ``zoned``: a moment without a zone is at fault, for who sends it may mean another than this console's.
    """
    now_ms = (clock or SystemClock()).now_ms()
    name, start, end = (request.GET.get(key, "") for key in PARAMETERS)
    if start or end:
        return _span(start, end, now_ms, zoned=zoned)
    if not name:
        return _preset(DEFAULT, now_ms)
    if name not in PRESETS:
        raise BadInput(
            f"There is no time range {name[:20]!r}.", remedy=f"Use one of {', '.join(PRESETS)}.", field="range"
        )
    return _preset(name, now_ms, query=f"range={name}")


def _preset(name: str, now_ms: int, query: str = "") -> TimeRange:
    seconds, label = PRESETS[name]
    return TimeRange(now_ms - seconds * 1000, now_ms, label, query)


def _span(start: str, end: str, now_ms: int, *, zoned: bool) -> TimeRange:
    start_ms = _moment(start, "from", zoned=zoned) if start else None
    end_ms = _moment(end, "to", zoned=zoned) if end else now_ms
    if start_ms is None:
        start_ms = end_ms - PRESETS[DEFAULT][0] * 1000
    if start_ms >= end_ms:
        raise BadInput("The time range ends before it starts.", remedy="Give a later `to`.", field="to")
    if end_ms - start_ms > LONGEST_MS:
        raise BadInput("The time range is longer than a year.", remedy="Give a later `from`.", field="from")
    query = urlencode({"from": start_ms} | ({"to": end_ms} if end else {}))
    words = _words(start_ms, end_ms) if end else f"Since {_local(start_ms):%d %b %H:%M}"
    return TimeRange(start_ms, end_ms, words, query, moving=not end)


def _moment(text: str, field: str, *, zoned: bool) -> int:
    try:
        value = whole(text)
        if value is None:
            moment = datetime.fromisoformat(text)
            if moment.tzinfo is None and zoned:
                raise BadInput(
                    f"{text[:40]!r} names no zone.",
                    remedy="Write 2026-11-20T14:00Z or epoch milliseconds.",
                    field=field,
                )
            if moment.tzinfo is None:
                moment = moment.replace(tzinfo=timezone.get_current_timezone())
            value = round(moment.timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        raise BadInput(
            f"{text[:40]!r} is not a moment.", remedy="Write 2026-11-20T14:00 or epoch milliseconds.", field=field
        ) from error
    # Beyond these a range, or its time on somebody's wall, is no date any more.
    if not 0 <= value < END_OF_TIME_MS:
        raise BadInput(
            f"{text[:40]!r} lies before 1970 or after 9998.", remedy="Give a moment between these.", field=field
        )
    return value


def _words(start_ms: int, end_ms: int) -> str:
    start, end = _local(start_ms), _local(end_ms)
    if start.date() == end.date():
        return f"{start:%d %b %H:%M} to {end:%H:%M}"
    return f"{start:%d %b %H:%M} to {end:%d %b %H:%M}"


def _input(value_ms: int) -> str:
    return _local(value_ms).strftime("%Y-%m-%dT%H:%M")


def _local(value_ms: int) -> datetime:
    return datetime.fromtimestamp(value_ms / 1000, tz=timezone.get_current_timezone())
