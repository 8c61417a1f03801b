"""Whatever names a time range, what is listed of messages lies in it: on the page, in the log, over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client

from engine.core.clock import SystemClock, to_rfc3339
from tests.hbus_console.messages.conftest import TOPIC, message, publish

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

HOUR = 3_600_000
#: How long ago the messages were published: one just now, then one for each hour and day.
AGES = {"now": 1_000, "m2h": 2 * HOUR, "m20h": 20 * HOUR, "m3d": 72 * HOUR, "m9d": 216 * HOUR}


@pytest.fixture
def now_ms(installation: None) -> int:
    now_ms = SystemClock().now_ms()
    for name, age_ms in AGES.items():
        message(name, now_ms - age_ms, key="k")
    return now_ms


def ranges(now_ms: int) -> list[tuple[str, set[str]]]:
    def iso(hours: float) -> str:
        return to_rfc3339(now_ms - round(hours * HOUR)).replace("+", "%2B")

    return [
        ("range=15m", {"now"}),
        ("range=1h", {"now"}),
        ("range=3h", {"now", "m2h"}),
        ("range=24h", {"now", "m2h", "m20h"}),
        ("range=7d", {"now", "m2h", "m20h", "m3d"}),
        (f"from={now_ms - 21 * HOUR}", {"now", "m2h", "m20h"}),
        (f"from={now_ms - 21 * HOUR}&to={now_ms - HOUR}", {"m2h", "m20h"}),
        # The beginning is in it and the end is not, to the millisecond.
        (f"from={now_ms - 20 * HOUR}&to={now_ms - 2 * HOUR}", {"m20h"}),
        (f"to={now_ms - 72 * HOUR + 1}", {"m3d"}),
        (f"from={iso(21)}&to={iso(1)}", {"m2h", "m20h"}),
        # What a selection in a chart makes of a page with a preset.
        (f"range=7d&from={now_ms - 21 * HOUR}&to={now_ms - HOUR}", {"m2h", "m20h"}),
    ]


@pytest.mark.parametrize("also", ["", f"&topic={TOPIC}", "&key=k", f"&type={TOPIC}"])
def test_the_page_and_the_api_list_what_lies_in_it(sign_in: Callable[..., Client], now_ms: int, also: str) -> None:
    client = sign_in()
    for named, found in ranges(now_ms):
        page = client.get(f"/messages/?{named}{also}")
        assert {row.message.message_id for row in page.context["rows"]} == found, named
        answer = client.get(f"/api/v1/messages?{named}{also}").json()
        assert {row["id"] for row in answer["results"]} == found, named


def test_the_pages_command_asks_the_api_for_the_same(sign_in: Callable[..., Client], now_ms: int) -> None:
    client = sign_in()
    for asked in ("", f"topic={TOPIC}", "key=k", "range=7d"):
        page = client.get(f"/messages/?{asked}")
        answer = client.get(page.context["curl_spec"].path).json()
        assert [row["id"] for row in answer["results"]] == [row.message.message_id for row in page.context["rows"]]


def test_a_log_that_is_only_looked_at_stays_in_it_too(sign_in: Callable[..., Client], installation: None) -> None:
    publish()
    client = sign_in()
    whole = client.get(f"/messages/?in=log&topic={TOPIC}")
    (seen,) = whole.context["scan"].entries
    for named, count in ((f"from={seen.at_ms}", 1), (f"from={seen.at_ms - 9}&to={seen.at_ms}", 0), ("range=1h", 1)):
        page = client.get(f"/messages/?in=log&topic={TOPIC}&{named}")
        assert len(page.context["scan"].entries) == count, named
        assert len(client.get(f"/api/v1/topics/{TOPIC}/log?{named}").json()["results"]) == count, named


def test_the_bar_says_which_range_the_page_shows(sign_in: Callable[..., Client], now_ms: int) -> None:
    client = sign_in()
    for asked, label in (
        ("", "Last hour"),
        ("key=k", "All times"),
        ("key=k&range=1h", "Last hour"),
        (f"in=log&topic={TOPIC}", "All times"),
    ):
        assert f'aria-label="Time range: {label}, ' in client.get(f"/messages/?{asked}").content.decode(), asked


def test_another_range_keeps_what_is_looked_for(sign_in: Callable[..., Client], now_ms: int) -> None:
    page = sign_in().get(f"/messages/?topic={TOPIC}&key=a%26b&range=3h&cursor=").content.decode()
    form = page[page.index('id="range-from"') - 1200 : page.index('id="range-from"')]
    for hidden in (f'name="topic" value="{TOPIC}"', 'name="key" value="a&amp;b"'):
        assert hidden in form
    assert 'name="range" value' not in form
    link = page[: page.index("Last 7 days")].rpartition('href="')[2].partition('"')[0].replace("&amp;", "&")
    assert parse_qs(urlsplit(link).query) == {"topic": [TOPIC], "key": ["a&b"], "range": ["7d"]}
