"""Figures of the hotels from the archive, as queries that are saved, and the same straight from the bookings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from engine.core.errors import HbusError
from engine.pipeline.query.running import run_query
from engine.pipeline.query.spec import QuerySpec
from examples.hotel.bookings import Feed
from hbus_console.access.permissions import Actor
from hbus_console.pipelines.queries.planning import files_of, shown_topics
from hbus_console.pipelines.queries.saving import WantedSaved, save_query
from hbus_console.pipelines.queries.working import CHILD
from hbus_console.pipelines.the_lake import lake

LEAD, NIGHTS = "booking.cancellations-by-lead-time", "stay.room-nights-by-month"
#: What they read.
READS = {LEAD: ("booking.cancelled", "booking.created", "stay.completed"), NIGHTS: ("stay.completed",)}
#: Days between booking and arrival: each span begins here.
SPANS = (0, 7, 30, 90, 180)
_OWNER = "Reservations"
_WHAT = {
    LEAD: "Of the bookings made so many days ahead, how many were cancelled",
    NIGHTS: "Nights of completed stays, by hotel",
}
_SQL = {
    LEAD: """WITH made AS (
  SELECT data->>'$.booking_id' AS booking, time::date AS day
  FROM messages WHERE topic = 'booking.created' AND source = '{source}'
), ended AS (
  SELECT data->>'$.booking_id' AS booking, data->>'$.reason' AS reason,
    -- A no-show keeps its first night: what it gives back begins a day later.
    coalesce(data->>'$.stay.arrival', data->>'$.released.arrival')::date
      - CASE WHEN data->>'$.reason' = 'no_show' THEN 1 ELSE 0 END AS arrival
  FROM messages WHERE topic IN ('stay.completed', 'booking.cancelled') AND source = '{source}'
)
SELECT list_max(list_filter({spans}, lambda begin: begin <= arrival - day)) AS days_ahead,
  count(*) AS bookings, count(*) FILTER (reason = 'cancelled') AS cancelled
FROM made JOIN ended USING (booking) GROUP BY 1 ORDER BY 1""",
    NIGHTS: """SELECT strftime(night, '%Y-%m') AS month,
  count(*) FILTER (hotel = 'City Hotel') AS city, count(*) FILTER (hotel = 'Resort Hotel') AS resort
FROM (
  SELECT data->>'$.hotel' AS hotel,
    unnest(range((data->>'$.stay.arrival')::timestamp,
      (data->>'$.stay.arrival')::timestamp + to_days((data->>'$.stay.nights')::int), INTERVAL 1 DAY)) AS night
  FROM messages WHERE topic = 'stay.completed' AND source = '{source}'
) GROUP BY 1 ORDER BY 1""",
}

Rows = Sequence[Sequence[object]]


class Figure(msgspec.Struct):
    """One of them. ``expected`` says what the bookings do."""

    name: str
    rows: Rows
    expected: Rows
    #: Why the query failed; empty: it did not.
    error: str = ""

    @property
    def equal(self) -> bool:
        return not self.error and [list(row) for row in self.rows] == [list(row) for row in self.expected]


def draw(actor: Actor, feed: Feed, archived: Sequence[str]) -> list[Figure]:
    """Save the queries whose topics are archived, and run each over what ``actor`` may see. Of one that was refused its
    figure says why."""
    expected = {LEAD: cancellations(feed), NIGHTS: room_nights(feed)}
    found = []
    for name, reads in READS.items():
        if not set(reads) <= set(archived):
            continue
        sql = sql_of(name, feed.source)
        try:
            save_query(actor, name, WantedSaved(sql, _WHAT[name], _OWNER, "The hotel example", replace=True))
        except HbusError as error:
            found.append(Figure(name, (), expected[name], f"{error.what} {error.remedy}"))
            continue
        state = lake().state()
        files = files_of(lake(), state, shown_topics(actor, state, reads, reveal=False), "", "")
        answer = run_query(QuerySpec(sql, files, seconds=60), CHILD)
        found.append(Figure(name, answer.rows, expected[name], answer.error))
    return found


def sql_of(name: str, source: str) -> str:
    """The query of that name, over the events of one feed."""
    return _SQL[name].format(source=source.replace("'", "''"), spans=list(SPANS))


def cancellations(feed: Feed) -> Rows:
    """By span: bookings, and how many of them were cancelled."""
    made: Counter[int] = Counter()
    gone: Counter[int] = Counter()
    for booking in feed.bookings:
        span = max(begin for begin in SPANS if begin <= booking.lead_days)
        made[span] += 1
        gone[span] += booking.end == "cancelled"
    return [(span, made[span], gone[span]) for span in SPANS if made[span]]


def room_nights(feed: Feed) -> Rows:
    """By month: nights of completed stays in the city and in the resort."""
    sold: Counter[tuple[str, str]] = Counter()
    for booking in feed.bookings:
        if booking.end == "stayed":
            for night in booking.stay.dates():
                sold[f"{night:%Y-%m}", booking.hotel] += 1
    months = sorted({month for month, _ in sold})
    return [(month, sold[month, "City Hotel"], sold[month, "Resort Hotel"]) for month in months]
