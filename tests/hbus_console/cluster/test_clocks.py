"""How far a node's clock is from the store's: measured with each stamp, shown, and marked when it is too far."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import redis
from django.conf import settings
from django.core.management import call_command
from django.test import Client

from engine.core.clock import ManualClock
from hbus_console.nodes.beat import NodeBeat
from hbus_console.nodes.clocks import ClockDifference, measure
from hbus_console.nodes.stamps import key, read_nodes
from hbus_console.wiring import store as wired


@pytest.fixture
def store(redis_url: str) -> redis.Redis:
    return redis.Redis.from_url(redis_url)


def store_ms(store: redis.Redis) -> float:
    seconds, micros = store.time()  # type: ignore[misc]
    return float(seconds * 1_000 + micros / 1_000)


class Laggard(ManualClock):
    """Between two looks at it, so many seconds pass: as long as a question takes."""

    def __init__(self, start_ms: int, took_s: float) -> None:
        super().__init__(start_ms)
        self._took_s = took_s

    def monotonic(self) -> float:
        self.advance(self._took_s)
        return super().monotonic()


@pytest.mark.parametrize("ahead_ms", [0, 5_000, -90_000])
def test_it_is_what_separates_the_clocks(store: redis.Redis, ahead_ms: int) -> None:
    before = store_ms(store)
    found = measure(store, ManualClock(start_ms=round(before) + ahead_ms))
    # The manual clock stands while the store's goes on
    passed = store_ms(store) - before
    assert ahead_ms - passed - 1 <= found.ahead_ms <= ahead_ms + 2
    assert found.margin_ms == 1


def test_the_answer_is_taken_to_be_from_the_middle_of_the_round_trip(store: redis.Redis) -> None:
    before = store_ms(store)
    found = measure(store, Laggard(round(before) - 4_000, took_s=4.0))
    passed = store_ms(store) - before
    # Asked 4 s behind and answered 4 s later: 2 s behind, give or take the 2 s of one way
    assert -2_000 - passed - 1 <= found.ahead_ms <= -2_000 + 2
    assert found.margin_ms == 2_001


@pytest.mark.parametrize(
    ("ahead_ms", "margin_ms", "wrong"),
    [(1_000, 0, False), (1_001, 0, True), (-1_001, 0, True), (1_400, 400, False), (1_401, 400, True)],
)
def test_only_what_is_surely_too_far_is_wrong(ahead_ms: int, margin_ms: int, wrong: bool) -> None:
    assert ClockDifference(ahead_ms, margin_ms).beyond(1_000) is wrong


@pytest.mark.parametrize(
    ("difference", "words"),
    [
        (ClockDifference(0), "the same"),
        (ClockDifference(-3, 3), "the same"),
        (ClockDifference(4, 3), "4 ms ahead"),
        (ClockDifference(-5_200), "5.2 s behind"),
        (ClockDifference(3_600_000), "3,600.0 s ahead"),
    ],
)
def test_it_is_said_in_words(difference: ClockDifference, words: str) -> None:
    assert difference.words == words


def test_a_stamp_carries_it(store: redis.Redis, prefix: str) -> None:
    clock = ManualClock(start_ms=round(store_ms(store)) - 60_000)
    NodeBeat(store, prefix, name="here:consumer:0", role="consumer", clock=clock).beat()
    (node,) = read_nodes(store, prefix, clock)
    assert node.clock is not None
    assert node.clock.words == "60.0 s behind"


def test_a_stamp_of_an_older_version_is_read(store: redis.Redis, prefix: str) -> None:
    clock = ManualClock()
    old = {"role": "web", "pid": 1, "host": "h", "slot": "0", "started_ms": 0, "stamp_ms": clock.now_ms()}
    store.hset(key(prefix), "h:web:0", json.dumps(old))
    assert read_nodes(store, prefix, clock)[0].clock is None


@pytest.fixture
def two_nodes() -> Iterator[None]:
    """One with the right time, one seven seconds ahead."""
    client = wired.client()
    fast = ManualClock(start_ms=round(store_ms(client)) + 7_000)
    NodeBeat(client, settings.HBUS_PREFIX, name="h:keeper:0", role="keeper").beat()
    NodeBeat(client, settings.HBUS_PREFIX, name="h:consumer:0", role="consumer", clock=fast).beat()
    yield
    client.delete(key(settings.HBUS_PREFIX))


@pytest.mark.django_db(databases=["default", "ledger"])
def test_page_endpoint_and_command_mark_the_wrong_one(
    page: Client, two_nodes: None, capsys: pytest.CaptureFixture[str]
) -> None:
    html = page.get("/cluster/").content.decode()
    assert "The clock of consumer 0" in html
    assert html.count('<span class="badge warn">wrong</span>') == 1
    assert "7.0 s ahead" in html
    body = page.get("/api/v1/cluster").json()
    told = {line["role"]: (line["clock_wrong"], line["clock"]["ahead_ms"] > 6_000) for line in body["processes"]}
    assert told == {"keeper": (False, False), "consumer": (True, True)}
    assert body["worst"] != "ok"
    assert all(line["uptime_s"] >= 0 for line in body["processes"])
    call_command("status")
    (wrong,) = (line for line in capsys.readouterr().out.splitlines() if "set it right" in line)
    assert wrong.startswith("consumer")
