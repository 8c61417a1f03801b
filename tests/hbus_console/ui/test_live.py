"""The stream: one poller, a share for everybody, and an end."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack

import pytest
import structlog
from django.db.models import F
from django.http import HttpResponse
from django.test import AsyncClient, Client, RequestFactory

from engine.core.clock import ManualClock
from hbus_console.accounts.middleware import ActorMiddleware
from hbus_console.accounts.models import Grant, User
from hbus_console.alerts import live as alerts
from hbus_console.cluster import probes
from hbus_console.deadletters import live as deadletters
from hbus_console.evidence.freshness import STALE_MS, Freshness
from hbus_console.traffic import live as traffic
from hbus_console.traffic.flow import FlowNow, LagNow, Rates
from hbus_console.traffic.sampler import LagSampler
from hbus_console.traffic.standing import Standing
from hbus_console.ui import live
from hbus_console.ui.live import Hub, LiveCells, TooManyStreams, event
from hbus_console.ui.polling import once_a_poll
from hbus_console.ui.views.live import _still

NOW = 1_795_183_331_204
EVERYTHING = ("*",)


async def yes() -> bool:
    return True


def stand(published: float = 0.0, now_ms: int = NOW) -> list[LiveCells]:
    rates = Rates(published=published, settled=9.96, handler_us=5_720)
    lag = {("booking.changed", "billing"): LagNow("booking.changed", "billing", NOW - 1000, 200, 3, 1, NOW - 1_400)}
    booked = Freshness.at(NOW, now_ms)
    flowing = Standing(FlowNow(rates, {"booking.changed": rates}, {}), lag, booked=booked, dead=booked)
    letters = deadletters.told({("booking.changed", "billing"): (37, 9)}, booked)
    return [traffic.told(flowing, now_ms), letters, alerts.told(0)]


class Look:
    """Counts how often it is asked, and for whom."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    def __call__(self, now_ms: int, scopes: tuple[str, ...]) -> list[LiveCells]:
        self.asked.append(scopes)
        return stand(len(self.asked))


async def first_event(stream: AsyncIterator[str]) -> str:
    async for text in stream:
        if "event:" in text:
            return text
    raise AssertionError("the stream ended without an event")


def test_an_event_carries_what_the_server_would_have_rendered() -> None:
    texts = event(stand(1284.4))["texts"]
    assert texts == {
        "published": "1,284",
        "settled": "10",
        "unsettled": "204",
        "unsettled/note": "oldest 1.4 s",
        "dead": "37",
        "dead/note": "all on booking.changed",
        "dead/menu": "37",
        "alerts": "0",
        "handling": "5.72",
        "handling/unit": "ms",
        "topic/booking.changed/rate": "1,284",
        "topic/booking.changed/unsettled": "204",
        "topic/booking.changed/dead": "37",
        "subscription/booking.changed/billing/rate": "0",
        "subscription/booking.changed/billing/unsettled": "204",
        "subscription/booking.changed/billing/unsettled/note": "200 waiting, 3 in flight, 1 retrying",
    }


def test_old_evidence_is_called_old() -> None:
    assert event(stand())["stale"] == ""
    # A keeper that froze is told well before anybody could take it for slow.
    assert 3_000 * LagSampler.interval_s == STALE_MS
    assert "no keeper is sampling" in str(event(stand(now_ms=NOW + STALE_MS))["stale"])


def test_figures_are_old_from_the_moment_on_that_nobody_can_ask_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "obstacle", lambda: "The store does not answer.")
    stale = str(event(stand())["stale"])
    assert stale.startswith("No figure is newer than ")
    assert stale.endswith(" The store does not answer.")


def test_a_row_that_one_feature_tells_of_has_a_text_in_the_columns_of_all() -> None:
    lag = {("stay.completed", "loyalty"): LagNow("stay.completed", "loyalty", NOW - 1000, 4, 0, 0, NOW - 1_400)}
    booked = Freshness.at(NOW, NOW)
    flowing = Standing(FlowNow(Rates(), {}, {}), lag, booked=booked, dead=booked)
    texts = event(
        [
            traffic.told(flowing, NOW),
            deadletters.told({("booking.changed", "billing"): (2, 9), ("gone", "billing"): (1, 3)}, booked),
        ]
    )["texts"]
    assert isinstance(texts, dict)
    rows = {key: text for key, text in texts.items() if key.startswith("topic/")}
    assert rows == {
        "topic/stay.completed/rate": "0",
        "topic/stay.completed/unsettled": "4",
        "topic/stay.completed/dead": "0",
        "topic/booking.changed/rate": "0",
        "topic/booking.changed/unsettled": "0",
        "topic/booking.changed/dead": "2",
        "topic/gone/rate": "0",
        "topic/gone/unsettled": "0",
        "topic/gone/dead": "1",
    }


def test_everybody_who_has_old_figures_says_so() -> None:
    assert event([LiveCells(stale="No keeper."), LiveCells(), LiveCells(stale="No ledger.")]) == {
        "texts": {},
        "stale": "No keeper. No ledger.",
    }


def test_many_streams_of_one_sight_share_one_look() -> None:
    async def run() -> None:
        look = Look()
        hub = Hub(look, poll_s=60)
        streams = [hub.stream(EVERYTHING, "", yes) for _ in range(50)]
        texts = await asyncio.gather(*(first_event(stream) for stream in streams))
        assert len(set(texts)) == 1
        assert look.asked == [EVERYTHING]
        for stream in streams:
            await stream.aclose()

    asyncio.run(run())


def test_each_sight_gets_its_own_figures_from_the_same_poller() -> None:
    async def run() -> None:
        look = Look()
        hub = Hub(look, poll_s=0.01)
        mine, yours = hub.stream(("booking.*",), "", yes), hub.stream(("stay.*",), "", yes)
        one, other = await asyncio.gather(first_event(mine), first_event(yours))
        assert one.split("data: ")[1] != other.split("data: ")[1]
        assert set(look.asked) == {("booking.*",), ("stay.*",)}
        await mine.aclose()
        await yours.aclose()

    asyncio.run(run())


def test_a_reconnect_is_not_told_again_what_it_has_seen() -> None:
    async def run() -> None:
        hub = Hub(Look(), poll_s=60)
        stream = hub.stream(EVERYTHING, "", yes)
        text = await first_event(stream)
        seen = text.split("id: ")[1].split("\n")[0]
        again = hub.stream(EVERYTHING, seen, yes)
        assert await anext(again) == "retry: 3000\n\n"
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(first_event(again), 0.05)
        await stream.aclose()

    asyncio.run(run())


def test_a_look_that_fails_is_logged_once_and_the_streams_go_on() -> None:
    async def run() -> None:
        faults: list[Exception] = [KeyError("a mistake of a feature"), KeyError("a mistake of a feature")]

        def look(now_ms: int, scopes: tuple[str, ...]) -> list[LiveCells]:
            if faults:
                raise faults.pop()
            return stand()

        hub = Hub(look, poll_s=0.01)
        stream = hub.stream(EVERYTHING, "", yes)
        with structlog.testing.capture_logs() as logged:
            await asyncio.wait_for(first_event(stream), 10)
        assert [line["error"] for line in logged] == ["KeyError: 'a mistake of a feature'"]
        await stream.aclose()

    asyncio.run(run())


def test_one_poll_asks_once_for_all_scopes_and_the_next_one_again() -> None:
    asked: list[int] = []

    def question() -> int:
        asked.append(1)
        return len(asked)

    def look(now_ms: int, scopes: tuple[str, ...]) -> list[LiveCells]:
        return [LiveCells(texts={"asked": str(once_a_poll(question))})]

    hub = Hub(look)
    for number in ("1", "2"):
        told = hub._thread.submit(hub._read, NOW, [EVERYTHING, ("booking.*",), ("stay.*",)]).result()
        assert [json.loads(data)["texts"] for data, _ in told.values()] == [{"asked": number}] * 3
    assert (once_a_poll(question), once_a_poll(question)) == (3, 4)


def test_polling_stops_when_nobody_listens() -> None:
    async def run() -> None:
        look = Look()
        hub = Hub(look, poll_s=0.01)
        stream = hub.stream(EVERYTHING, "", yes)
        await first_event(stream)
        await stream.aclose()
        assert hub._task is not None
        await asyncio.wait_for(hub._task, 5)
        asked = len(look.asked)
        assert asked >= 1
        # And begins again with the next listener.
        more = hub.stream(EVERYTHING, str(hub._tick.number), yes)
        await first_event(more)
        assert len(look.asked) > asked
        await more.aclose()

    asyncio.run(run())


def test_a_stream_ends_after_its_life_so_that_rights_are_looked_up_again() -> None:
    async def run() -> None:
        clock = ManualClock(NOW)
        hub = Hub(Look(), clock, poll_s=0.01)
        texts = []
        async for text in hub.stream(EVERYTHING, "", yes):
            texts.append(text)
            clock.advance(10)
        assert texts.count(": still here\n\n") >= 10
        assert clock.monotonic() >= live.LIFE_S

    asyncio.run(run())


def test_a_stream_ends_when_its_owner_may_no_longer_see_it() -> None:
    async def no() -> bool:
        return False

    async def run() -> None:
        clock = ManualClock(NOW)
        hub = Hub(Look(), clock, poll_s=0.01)
        count = 0
        async for _ in hub.stream(EVERYTHING, "", no):
            count += 1
            clock.advance(live.COMMENT_S)
        assert count == 1

    asyncio.run(run())


def test_one_person_holds_only_so_many_streams() -> None:
    hub = Hub(Look())
    with ExitStack() as held, hub.seat(7):
        for _ in range(live.MOST_STREAMS - 1):
            held.enter_context(hub.seat(7))
        assert hub.full(7)
        with pytest.raises(TooManyStreams), hub.seat(7):
            pass
        assert not hub.full(8)
    assert not hub.full(7)


@pytest.mark.django_db(databases=["default", "ledger"])
def test_rights_and_session_are_asked_again(viewer: User, browse: Callable[[User], Client]) -> None:
    session = browse(viewer).session
    key = session.session_key or ""
    request = RequestFactory().get("/live/")
    request.session, request.user = session, viewer
    ActorMiddleware(lambda _: HttpResponse())(request)
    assert _still(request, key, ("booking.*",))
    Grant.objects.filter(user=viewer).update(scope="stay.*")
    assert not _still(request, key, ("booking.*",))
    Grant.objects.filter(user=viewer).update(scope="booking.*")
    User.objects.filter(pk=viewer.pk).update(must_change_password=True)
    assert not _still(request, key, ("booking.*",))
    User.objects.filter(pk=viewer.pk).update(must_change_password=False)
    assert _still(request, key, ("booking.*",))
    # Locked and let in again between two questions: its sessions have ended for good.
    User.objects.filter(pk=viewer.pk).update(session_epoch=F("session_epoch") + 1)
    assert not _still(request, key, ("booking.*",))
    User.objects.filter(pk=viewer.pk).update(session_epoch=F("session_epoch") - 1)
    assert _still(request, key, ("booking.*",))
    session.delete()
    assert not _still(request, key, ("booking.*",))


@pytest.mark.django_db(databases=["default", "ledger"])
def test_a_changed_password_ends_the_streams_of_other_sessions(viewer: User, browse: Callable[[User], Client]) -> None:
    elsewhere = browse(viewer).session
    request = RequestFactory().get("/live/")
    request.session, request.user = elsewhere, viewer
    ActorMiddleware(lambda _: HttpResponse())(request)
    key = elsewhere.session_key or ""
    assert _still(request, key, ("booking.*",))
    viewer.set_password("one that nobody else knows 7")
    viewer.save()
    assert elsewhere.exists(key), "Django leaves the row to be refused"
    assert not _still(request, key, ("booking.*",))


@pytest.mark.django_db(databases=["default", "ledger"])
def test_nothing_streams_to_who_must_change_the_password(viewer: User, browse: Callable[[User], Client]) -> None:
    client = browse(viewer)
    User.objects.filter(pk=viewer.pk).update(must_change_password=True)
    assert client.get("/live/").status_code == 403


@pytest.mark.django_db(databases=["default", "ledger"], transaction=True)
def test_the_view_streams_events_to_the_signed_in(viewer: User, monkeypatch: pytest.MonkeyPatch) -> None:
    look = Look()

    async def run() -> None:
        feed = Hub(look, poll_s=0.01)
        monkeypatch.setattr("hbus_console.ui.views.live.hub", lambda: feed)
        client = AsyncClient()
        assert (await client.get("/live/")).status_code == 401
        await client.aforce_login(viewer)
        response = await client.get("/live/")
        assert response["Content-Type"].startswith("text/event-stream")
        assert response["Cache-Control"] == "no-store"
        chunks = response.streaming_content
        text = ""
        while "event: standing" not in text:
            text += (await anext(chunks)).decode()
        assert json.loads(text.split("data: ")[1])["texts"]["dead"] == "37"
        assert look.asked[0] == ("booking.*",)
        await chunks.aclose()

    asyncio.run(run())


@pytest.mark.django_db(databases=["default", "ledger"], transaction=True)
def test_beyond_the_cap_the_view_says_when_to_come_back(viewer: User, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        feed = Hub(Look())
        monkeypatch.setattr("hbus_console.ui.views.live.hub", lambda: feed)
        client = AsyncClient()
        await client.aforce_login(viewer)
        with ExitStack() as held:
            for _ in range(live.MOST_STREAMS):
                held.enter_context(feed.seat(viewer.pk))
            response = await client.get("/live/")
            assert response.status_code == 429
            assert int(response["Retry-After"]) > 0
        assert (await client.get("/live/")).status_code == 200

    asyncio.run(run())


@pytest.mark.django_db(databases=["default", "ledger"])
def test_the_stream_of_a_browser_is_named_by_the_person(
    page: Client, viewer: User, browse: Callable[[User], Client]
) -> None:
    """The worker that its tabs share is another's when another signs in."""
    names = [
        re.findall(r'data-stream-name="([^"]*)"', client.get("/").content.decode()) for client in (page, browse(viewer))
    ]
    assert all(names)
    assert names[0] != names[1]


def test_what_one_says_with_more_words_is_not_said_twice() -> None:
    told = [LiveCells(stale="No figure is new. The store is away."), LiveCells(stale="The store is away.")]
    assert event([*told, *told])["stale"] == "No figure is new. The store is away."
