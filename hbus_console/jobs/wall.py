"""Instants as the wall of a job's zone shows them, and the hours of a day as the wall of whoever looks does."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from engine.core.errors import HbusError
from engine.cron.expression import Slot
from engine.cron.expression.offsets import zone

#: What a mark of a slot says.
MARKS = {
    "gap": "its time is left out: when the gap ends",
    "first": "its time comes twice: the first",
    "second": "its time comes twice: the second",
}
#: Hours between two names on the axis of a day, and how near the name of now pushes another away, in parts of a day.
_EACH, _NEAR = 3, 0.07
#: How near where a screen of medium width, or a narrow one, has no room beside the name of now, and its class.
_CLOSE = ((0.12, "beside-now near-now"), (0.26, "near-now"))


@dataclass(frozen=True)
class SlotOnWall:
    """A slot as a page tells it."""

    #: ``16:00``, ``24 Nov 02:00``.
    short: str
    #: ``2026-11-24 02:00:00``, and ``+01:00``.
    exact: str
    offset: str
    utc: str
    #: What a change of the clocks made of it; empty on nearly all days.
    mark: str
    meant: str
    at_ms: int


def told_slot(slot: Slot, now_us: int) -> SlotOnWall:
    """``slot`` as of now."""
    local = _at(slot.at, slot.offset)
    return SlotOnWall(
        short=_short(local, _at(now_us // 1_000_000, slot.offset)),
        exact=f"{local:%Y-%m-%d %H:%M:%S}",
        offset=local.isoformat()[-6:],
        utc=slot.utc,
        mark=slot.mark,
        meant=MARKS.get(slot.mark, ""),
        at_ms=slot.at * 1_000,
    )


def short_wall(at_s: int, zone_name: str, now_us: int) -> str:
    """``14:00``; of another day ``22 Nov 14:00``. In UTC where the zone is none (any more)."""
    return _short(on_wall(at_s, zone_name), on_wall(now_us // 1_000_000, zone_name))


def on_wall(at_s: int, zone_name: str) -> datetime:
    """What the wall of a zone shows; likewise."""
    try:
        return _at(at_s, zone(zone_name).span(at_s).offset)
    except HbusError:
        return _at(at_s, 0)


def _at(at_s: int, offset: int) -> datetime:
    return datetime.fromtimestamp(at_s, tz=timezone(timedelta(seconds=offset)))


def _short(local: datetime, now: datetime) -> str:
    time = f"{local:%H:%M:%S}" if local.second else f"{local:%H:%M}"
    if local.date() == now.date():
        return time
    return f"{local.day} {local:%b}{f' {local:%Y}' if local.year != now.year else ''} {time}"


@dataclass(frozen=True)
class WallDay:
    """From a midnight to the next, in seconds; where clocks change it has 23 or 25 hours."""

    begin_s: int
    end_s: int
    of: tzinfo

    @property
    def span_s(self) -> int:
        return self.end_s - self.begin_s

    def share(self, at_s: int) -> float:
        """How much of it is over at ``at_s``."""
        return (at_s - self.begin_s) / self.span_s

    def axis(self, now_s: int) -> SafeString:
        """Its hours, and what time it is."""
        now = self.share(now_s)
        marks = [
            (each, f"{self._wall(at):%H:%M}") for at in self._hours() if abs((each := self.share(at)) - now) > _NEAR
        ]
        names = format_html_join(
            "",
            '<text x="{}%" y="12" class="{}">{}</text>',
            ((percent(x), f"{anchor(x)}{_beside(abs(x - now))}", name) for x, name in marks),
        )
        return format_html(
            '<svg class="hours" height="17" aria-hidden="true">{}<text x="{}%" y="12" class="{} now">{}</text></svg>',
            names,
            percent(now),
            anchor(now),
            f"{self._wall(now_s):%H:%M}",
        )

    def _wall(self, at_s: int) -> datetime:
        return datetime.fromtimestamp(at_s, tz=self.of)

    def _hours(self) -> list[int]:
        """Each third hour on the wall; the last is the next midnight."""
        hours = range(self.begin_s, self.end_s + 1, 3_600)
        return [at for at in hours if self._wall(at).hour % _EACH == 0]


def day_of(now_ms: int, of: tzinfo) -> WallDay:
    """The day that it is in the zone of whoever looks."""
    now = datetime.fromtimestamp(now_ms / 1_000, tz=of)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    following = (midnight.replace(tzinfo=None) + timedelta(days=1)).replace(tzinfo=of)
    begin, end = (int(each.astimezone(UTC).timestamp()) for each in (midnight, following))
    return WallDay(begin, end, of)


def percent(share: float) -> str:
    """A place in a picture, as SVG has it."""
    return f"{share * 100:.2f}"


def _beside(apart: float) -> str:
    """Where the picture is small there is no room for a name so close to the time of now."""
    return next((f" {words}" for most, words in _CLOSE if apart < most), "")


def anchor(share: float) -> str:
    """Names at the ends stay within the picture."""
    if share < _NEAR:
        return "at-begin"
    return "at-end" if share > 1 - _NEAR else "at"
