"""Tabs come and go at any instant, on the way that a browser's requests take: whoever stays is told all the same."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import AsyncIterator, MutableMapping
from typing import Any

import pytest
import structlog
from django.test import AsyncClient, Client

from engine.core.clock import ManualClock
from hbus_console.accounts.models import User
from hbus_console.asgi import application
from hbus_console.registry import asking
from hbus_console.ui import live
from hbus_console.ui.live import Hub, LiveCells

NOW = 1_795_183_331_204
EVERYTHING = ("*",)
TABS, AT_ONCE = 400, 20
POLL_S = 0.004
#: Of the machine's own time, where everything that is waited for comes within milliseconds.
LONG_S = 30


async def yes() -> bool:
    return True


def counting() -> live.Look:
    """Each look has other figures."""
    asked: list[int] = []

    def look(now_ms: int, scopes: tuple[str, ...]) -> list[LiveCells]:
        asked.append(1)
        return [LiveCells(texts={"looks": str(len(asked))})]

    return look


async def heard(stream: AsyncIterator[str]) -> str:
    async for text in stream:
        if "event: standing" in text:
            return text
    raise AssertionError("the stream ended")


class Tab:
    """A request for the stream that is given up ``after_s`` after so many events, or before there is any answer."""

    def __init__(self, cookie: str, events: int, after_s: float) -> None:
        self._cookie, self._events, self._after_s = cookie, events, after_s
        self._asked = False
        self._gone = asyncio.Event()
        self.failed: list[str] = []

    async def live(self) -> None:
        headers = [(b"host", b"testserver"), (b"cookie", self._cookie.encode()), (b"accept", b"text/event-stream")]
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": "/live/",
            "raw_path": b"/live/",
            "query_string": b"",
            "root_path": "",
            "headers": headers,
            "client": ("127.0.0.1", 1),
            "server": ("testserver", 80),
        }
        if not self._events:
            self._close_soon()
        await application(scope, self._receive, self._send)

    def _close_soon(self) -> None:
        asyncio.get_running_loop().call_later(self._after_s, self._gone.set)

    async def _receive(self) -> dict[str, Any]:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start" and message["status"] != 200:
            self.failed.append(str(message["status"]))
        if b"event: standing" in message.get("body", b""):
            self._events -= 1
            if not self._events:
                self._close_soon()


@pytest.mark.django_db(databases=["default", "ledger"], transaction=True)
def test_hundreds_of_tabs_that_open_and_close_at_random_stop_nobody(
    viewer: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(20261126)
    never = threading.Event()

    def look(now_ms: int, scopes: tuple[str, ...]) -> list[LiveCells]:
        # Sometimes longer than a stream waits: then its wait runs out, at the instant at which a tab may close.
        never.wait(rng.uniform(0, 2 * POLL_S))
        return []

    async def run() -> None:
        feed = Hub(look, poll_s=POLL_S)
        monkeypatch.setattr("hbus_console.ui.views.live.hub", lambda: feed)
        monkeypatch.setattr(live, "MOST_STREAMS", 2 * AT_ONCE)
        client = AsyncClient()
        await client.aforce_login(viewer)
        cookie = "; ".join(f"{name}={morsel.value}" for name, morsel in client.cookies.items())
        stays = feed.stream(EVERYTHING, "", yes)
        await asyncio.wait_for(heard(stays), LONG_S)
        left = [Tab(cookie, rng.choice((0, 1, 1, 2)), rng.uniform(0, 4 * POLL_S)) for _ in range(TABS)]
        every = list(left)

        async def sit() -> None:
            while left:
                await asyncio.wait_for(left.pop().live(), LONG_S)

        await asyncio.gather(*(sit() for _ in range(AT_ONCE)))
        assert [tab.failed for tab in every if tab.failed] == []
        before = feed._tick.number
        while True:
            text = await asyncio.wait_for(heard(stays), LONG_S)
            if int(text.split("id: ")[1].split("\n")[0]) > before:
                break
        # Nobody who has left is counted, and nothing of theirs is kept.
        assert feed._people == {}
        assert dict(feed._listeners) == {EVERYTHING: 1}
        assert feed._waiting == set()
        await stays.aclose()

    # In a thread that can be left behind: what waits for a lost lock may not even hear that it is cancelled.
    ended: list[bool] = []
    alone = threading.Thread(target=lambda: ended.append(asyncio.run(run()) is None), daemon=True)
    alone.start()
    alone.join(4 * LONG_S)
    assert ended


def test_a_poller_that_died_is_told_of_and_another_goes_on() -> None:
    async def run() -> None:
        feed = Hub(counting(), poll_s=POLL_S)
        stream = feed.stream(EVERYTHING, "", yes)
        await asyncio.wait_for(heard(stream), LONG_S)
        dead = feed._task
        assert dead is not None
        dead.cancel()
        await asyncio.wait({dead})
        with structlog.testing.capture_logs() as logged:
            await asyncio.wait_for(heard(stream), LONG_S)
            await asyncio.wait_for(heard(stream), LONG_S)
        assert [line["event"] for line in logged] == ["the poller of live figures died and is started anew"]
        assert feed._task is not dead
        await stream.aclose()

    asyncio.run(run())


def test_a_poller_that_stands_still_makes_the_process_not_ready(
    client: Client, db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock(NOW)
    go_on, begun = threading.Event(), threading.Event()

    def look(now_ms: int, scopes: tuple[str, ...]) -> list[LiveCells]:
        begun.set()
        go_on.wait(LONG_S)
        return []

    async def run() -> list[str]:
        feed = Hub(look, clock, poll_s=POLL_S)
        monkeypatch.setattr(live, "_hubs", {asyncio.get_running_loop(): feed})
        clock.advance(1_000)
        said = [live.trouble()]
        stream = feed.stream(EVERYTHING, "", yes)
        assert await anext(stream) == "retry: 3000\n\n"
        waits = asyncio.ensure_future(heard(stream))
        await asyncio.to_thread(begun.wait, LONG_S)
        said.append(live.trouble())
        clock.advance(live.STILL_S + 1)
        said.append(live.trouble())
        go_on.set()
        await asyncio.wait_for(waits, LONG_S)
        said.append(live.trouble())
        await stream.aclose()
        clock.advance(1_000)
        return [*said, live.trouble()]

    assert asyncio.run(run()) == ["", "", "has not looked for 31 s", "", ""]


@pytest.mark.parametrize("slow", ["sets of scopes", "features"])
def test_a_look_that_is_slow_does_not_stand_still(slow: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by a reviewer: 40 sets of scopes of 0.8 s each, and the web role was killed with all its requests."""
    clock = ManualClock(NOW)
    still: list[float] = []
    sets = [("a.*",), ("b.*",), ("c.*",)] if slow == "sets of scopes" else [EVERYTHING]

    def look(now_ms: int, scopes: tuple[str, ...]) -> list[LiveCells]:
        clock.advance(live.STILL_S - 1)
        still.append(feed.still_s())
        return []

    def answer(now_ms: int, scopes: tuple[str, ...]) -> LiveCells:
        look(now_ms, scopes)
        return LiveCells()

    monkeypatch.setattr(asking, "resolve", lambda dotted: answer)
    feed = Hub(look if slow == "sets of scopes" else None, clock, poll_s=POLL_S)

    async def run() -> None:
        streams = [feed.stream(scopes, "", yes) for scopes in sets]
        for stream in streams:
            assert await anext(stream) == "retry: 3000\n\n"
        await asyncio.wait_for(heard(streams[0]), LONG_S)
        for stream in streams:
            await stream.aclose()

    asyncio.run(run())
    assert len(still) >= 3
    assert max(still) < live.STILL_S


@pytest.mark.django_db(databases=["default", "ledger"])
def test_readyz_watches_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Client().get("/readyz").json()["parts"]["live"] == "ok"
    monkeypatch.setattr(live, "trouble", lambda: "has not looked for 31 s")
    answer = Client().get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["parts"]["live"] == "has not looked for 31 s"


def test_who_comes_is_not_given_a_look_from_before() -> None:
    """Nobody listened meanwhile, so nobody looked; or the poller hangs."""

    async def run() -> None:
        clock = ManualClock(NOW)
        feed = Hub(counting(), clock, poll_s=POLL_S)
        first = feed.stream(EVERYTHING, "", yes)
        text = await asyncio.wait_for(heard(first), LONG_S)
        assert '"looks": "1"' in text
        await first.aclose()
        assert feed._task is not None
        await asyncio.wait({feed._task})
        clock.advance(live.COMMENT_S / 2)
        second = feed.stream(EVERYTHING, "", yes)
        text = await asyncio.wait_for(heard(second), LONG_S)
        assert '"looks": "1"' not in text
        # And of a look that is too old, whoever looks.
        clock.advance(live.COMMENT_S + 1)
        assert feed._fresh(EVERYTHING) is None
        await second.aclose()

    asyncio.run(run())


def test_a_look_that_fails_is_told_to_pages_at_once() -> None:
    def look(now_ms: int, scopes: tuple[str, ...]) -> list[LiveCells]:
        raise KeyError("a mistake")

    async def run() -> None:
        feed = Hub(look, poll_s=POLL_S)
        stream = feed.stream(EVERYTHING, "", yes)
        assert live.UNREAD in await asyncio.wait_for(heard(stream), LONG_S)
        await stream.aclose()

    asyncio.run(run())
