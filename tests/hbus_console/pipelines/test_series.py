"""Series as a topic's page, its charts and the endpoint show them."""

from __future__ import annotations

from datetime import datetime

import pytest
from django.test import Client
from pytest_django import Settings

from engine.core.clock import ManualClock, to_rfc3339
from engine.core.resolution import Resolution
from hbus_console.pipelines.models import ArchivedTopic, RolledUp, SeriesPoint
from hbus_console.pipelines.views import series as series_views
from hbus_console.topics.models import Topic
from hbus_console.ui.spans import MOST_POINTS, resolution_for
from tests.hbus_console.pipelines.conftest import TOPIC, MakeUser

pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)

DAY_S, HOUR_S = 86_400, 3_600
NOW_S = 1_795_867_200 + 90
HOUR = NOW_S // HOUR_S * HOUR_S


@pytest.fixture
def rolled(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> Topic:
    """Three hours of which one is going on, and the days they are in; rolled up a minute ago."""
    monkeypatch.setattr(series_views, "_clock", ManualClock(NOW_S * 1000))
    for back, counts in enumerate(({"stored": 5}, {"stored": 7, "settled": 6, "retried": 3, "p99_ms": 8.5}, {})):
        if counts:
            SeriesPoint.objects.create(topic=TOPIC, resolution="hour", at=HOUR - back * HOUR_S, **counts)
    for name, settled in (("billing", 6), ("audit", 9)):
        SeriesPoint.objects.create(
            topic=TOPIC, subscription=name, resolution="day", at=NOW_S // DAY_S * DAY_S, settled=settled
        )
    RolledUp.objects.create(topic=TOPIC, date=to_rfc3339(NOW_S * 1000)[:10], digest="", at_ms=(NOW_S - 60) * 1000)
    return topic


@pytest.fixture
def viewer(rolled: Topic, make_user: MakeUser) -> Client:
    client = Client()
    client.force_login(make_user("viewer", "booking.*", name="vic"))
    return client


def span(start_s: int, end_s: int) -> str:
    return f"from={start_s * 1000}&to={end_s * 1000}"


def api(client: Client, query: str, status: int = 200) -> dict[str, object]:
    answer = client.get(f"/api/v1/archive/topics/{TOPIC}/series?{query}")
    assert answer.status_code == status
    found: dict[str, object] = answer.json()
    return found


def chart(client: Client, what: str, query: str = "?range=7d") -> dict[str, object]:
    answer = client.get(f"/topics/{TOPIC}/history/chart/{query}&what={what}")
    assert answer.status_code == 200
    found: dict[str, object] = answer.json()
    return found


def values(found: dict[str, object], name: str) -> list[object]:
    (line,) = [each for each in found["series"] if each["name"] == name]  # type: ignore[attr-defined]
    return list(line["values"])


def test_a_chart_has_a_value_for_each_span_up_to_the_newest_that_is_rolled_up(viewer: Client) -> None:
    found = chart(viewer, "messages")
    assert found["t"][-1] == HOUR  # type: ignore[index]
    assert values(found, "stored")[-3:] == [0, 7, 5]
    assert sum(values(found, "stored")) == 12  # type: ignore[arg-type]
    assert values(chart(viewer, "failures"), "attempts that failed")[-3:] == [None, 33.333, None]
    assert values(chart(viewer, "latency"), "99 of 100 within")[-3:] == [None, 8.5, None]


def test_no_zero_is_drawn_for_what_the_archive_has_not_come_to(viewer: Client) -> None:
    """Messages flow, the roll-up ran a minute ago, and the archive ends in the middle of the minute before the last."""
    last = NOW_S // 60 * 60 - 120
    for at in (last - 60, last):
        SeriesPoint.objects.create(topic=TOPIC, resolution="minute", at=at, stored=9)
    found = chart(viewer, "messages", "?range=1h")
    assert found["t"][-1] == last  # type: ignore[index]
    assert values(found, "stored")[-3:] == [0, 9, 9]


@pytest.mark.parametrize(
    ("resolution", "query"), [("minute", "range=1h"), ("hour", "range=7d"), ("day", span(NOW_S - 40 * DAY_S, NOW_S))]
)
def test_a_chart_tells_what_the_endpoint_does(viewer: Client, resolution: str, query: str) -> None:
    """Something was stored last a while ago, and was settled, tried again and dead after it."""
    SeriesPoint.objects.all().delete()
    step = Resolution(resolution).seconds
    newest = NOW_S // step * step
    for of_it in ("", "billing"):
        for back, counts in enumerate(({"dead": 1}, {"retried": 2}, {"settled": 4})):
            SeriesPoint.objects.create(
                topic=TOPIC, subscription=of_it, resolution=resolution, at=newest - back * step, **counts
            )
    SeriesPoint.objects.create(topic=TOPIC, resolution=resolution, at=newest - 4 * step, stored=3)
    for of_it in ("", "billing"):
        found = chart(viewer, "messages", f"?{query}&subscription={of_it}")
        told = api(viewer, f"{span(NOW_S - 40 * step, NOW_S)}&resolution={resolution}&subscription={of_it}")
        for name, figure in (("settled", "settled"), ("failed", "retried"), ("dead", "dead")):
            drawn = {at: value for at, value in zip(found["t"], values(found, name), strict=True) if value}  # type: ignore[call-overload]
            assert drawn == {
                int(datetime.fromisoformat(each["at"]).timestamp()): each[figure]
                for each in told["points"]  # type: ignore[attr-defined]
                if each[figure]
            }
            assert drawn
        assert found["t"][-1] == newest  # type: ignore[index]


@pytest.mark.parametrize(
    ("resolution", "query"), [("minute", "range=1h"), ("hour", "range=7d"), ("day", span(NOW_S - 40 * DAY_S, NOW_S))]
)
def test_a_topic_that_fell_silent_ends_in_zeros_as_far_as_its_series_come(
    viewer: Client, rolled: Topic, resolution: str, query: str
) -> None:
    step = Resolution(resolution).seconds
    newest = NOW_S // step * step - 5 * step
    SeriesPoint.objects.all().delete()
    SeriesPoint.objects.create(topic=TOPIC, resolution=resolution, at=newest, stored=9)
    assert values(chart(viewer, "messages", f"?{query}"), "stored")[-1] == 9
    # In the middle of a span, of which nobody knows the rest.
    mark_ms = (newest + 3 * step + step // 2) * 1000
    ArchivedTopic.objects.create(topic=rolled, started_by="gov", rolled_upto_ms=mark_ms)
    found = chart(viewer, "messages", f"?{query}")
    assert values(found, "stored")[-3:] == [9, 0, 0]
    assert found["t"][-1] == newest + 2 * step  # type: ignore[index]


def test_of_a_subscription_nothing_is_stored(viewer: Client) -> None:
    found = chart(viewer, "messages", "?range=7d&subscription=billing")
    assert [each["name"] for each in found["series"]] == ["settled", "failed", "dead"]  # type: ignore[attr-defined]


def test_a_chart_that_there_is_not_is_refused(viewer: Client) -> None:
    assert viewer.get(f"/topics/{TOPIC}/history/chart/?what=weather").status_code == 400


def test_the_page_lists_the_subscriptions_and_what_they_did(viewer: Client) -> None:
    shown = viewer.get(f"/topics/{TOPIC}/history/?range=7d").content.decode()
    assert shown.index("audit") < shown.index("6 settled")
    assert "Messages by the hour" in shown
    assert 'aria-current="page">History' in shown


@pytest.mark.parametrize(
    ("counts", "said", "beside"),
    [
        ({"stored": 4, "skewed": 14_938}, "could be measured of nothing", "14,938 are too far off to be measured"),
        ({"stored": 4, "skewed": 1, "late_p50_ms": 0.0}, "Nothing that was measured was", "1 is too far off to be"),
        ({"stored": 4, "late_p50_ms": 0.0}, "Nothing was late in this time.", ""),
        ({"stored": 4}, "Nothing in this time can be late", ""),
        ({"dead": 1}, "Nothing was stored in this time.", ""),
        ({"settled": 4}, "it is known when it was published", ""),
        ({"settled": 4, "timed": 4, "p50_ms": 0.0}, "All was settled within a millisecond.", ""),
        ({"settled": 4}, "No attempt failed in this time.", ""),
        ({"stored": 4}, "Nothing was settled in this time.", ""),
        ({"stored": 4}, "No attempt was made in this time.", ""),
    ],
)
def test_a_chart_without_a_line_says_why(viewer: Client, counts: dict[str, float], said: str, beside: str) -> None:
    SeriesPoint.objects.all().delete()
    SeriesPoint.objects.create(topic=TOPIC, resolution="hour", at=HOUR - 3 * HOUR_S, **counts)
    # Of another time, and of a subscription, that is not said.
    SeriesPoint.objects.create(topic=TOPIC, resolution="hour", at=HOUR - 9 * DAY_S, skewed=70)
    page = viewer.get(f"/topics/{TOPIC}/history/?range=7d").content.decode()
    assert said in page
    assert ("too far off to be measured" in page) is bool(beside)
    assert beside in page
    assert "too far off" not in viewer.get(f"/topics/{TOPIC}/history/?range=7d&subscription=x").content.decode()


def test_a_topic_without_history_says_what_to_do(viewer: Client, rolled: Topic) -> None:
    RolledUp.objects.all().delete()
    assert "Not archived" in viewer.get(f"/topics/{TOPIC}/history/").content.decode()


def test_who_may_not_see_the_topic_sees_no_series(rolled: Topic, make_user: MakeUser) -> None:
    client = Client()
    client.force_login(make_user("admin", "payment.*", name="pay"))
    for address in (
        f"/topics/{TOPIC}/history/",
        f"/topics/{TOPIC}/history/chart/",
        f"/api/v1/archive/topics/{TOPIC}/series",
    ):
        assert client.get(address).status_code in (403, 404)


def test_the_endpoint_tells_points_and_when_they_were_made(viewer: Client) -> None:
    found = api(viewer, f"resolution=hour&{span(HOUR - DAY_S, HOUR + HOUR_S)}")
    assert found["rolled_up_at"] == to_rfc3339((NOW_S - 60) * 1000)
    assert [(each["at"], each["stored"]) for each in found["points"]] == [  # type: ignore[attr-defined]
        (to_rfc3339((HOUR - HOUR_S) * 1000), 7),
        (to_rfc3339(HOUR * 1000), 5),
    ]
    # From the middle of a span on it is not asked for.
    later = api(viewer, span(HOUR - HOUR_S + 1, HOUR + HOUR_S))
    assert [each["stored"] for each in later["points"]] == [5]  # type: ignore[attr-defined]
    of_it = api(viewer, f"resolution=day&subscription=audit&{span(NOW_S - DAY_S, NOW_S)}")
    assert [each["settled"] for each in of_it["points"]] == [9]  # type: ignore[attr-defined]


def test_the_endpoint_refuses_what_is_too_much_or_makes_no_sense(viewer: Client) -> None:
    most = span(HOUR - MOST_POINTS * 60, HOUR)
    assert api(viewer, f"resolution=minute&{most}")["points"] == []
    refused = api(viewer, f"resolution=minute&{span(HOUR - (MOST_POINTS + 1) * 60, HOUR)}", 422)
    assert "2,001 points by the minute" in str(refused)
    assert "'field': 'from'" in str(refused)
    assert "'field': 'resolution'" in str(api(viewer, "resolution=year", 422))


@pytest.mark.parametrize(
    ("from_days", "to_days", "wanted"),
    [
        (0.5, 0, Resolution.MINUTE),
        (2.5, 2.1, Resolution.HOUR),
        (7, 0, Resolution.HOUR),
        (32, 0, Resolution.DAY),
        (95, 94, Resolution.DAY),
    ],
)
def test_a_chart_shows_the_finest_that_fits_and_is_kept(
    from_days: float, to_days: float, wanted: Resolution, settings: Settings
) -> None:
    settings.HBUS_SERIES_MINUTE_DAYS, settings.HBUS_SERIES_HOUR_DAYS = 2, 90
    assert resolution_for(NOW_S - round(from_days * DAY_S), NOW_S - round(to_days * DAY_S), NOW_S) is wanted
