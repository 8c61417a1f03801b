"""What changed between looks: told once to everybody who has not heard of it, and to nobody else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Hashable

from engine.core.clock import ManualClock
from hbus_console.ui import changes
from hbus_console.ui.changes import EVERYTHING, Changes, merged
from hbus_console.ui.live import Hub, LiveCells

ALL = ("*",)
SOME = ("booking.*",)
NOW = 1_795_183_331_204


def test_what_differs_comes_or_goes_has_changed() -> None:
    told = Changes()
    told.note(10, ALL, {"letters": 1, "audit": 7, "nodes": 3})
    told.note(20, ALL, {"letters": 2, "audit": 7, "alerts": 1})
    assert told.since(10, ALL) == ["alerts", "letters", "nodes"]
    assert told.since(20, ALL) == []


def test_a_look_that_was_missed_is_made_good() -> None:
    told = Changes()
    for number, letters in ((10, 1), (20, 2), (30, 2)):
        told.note(number, ALL, {"letters": letters})
    assert told.since(10, ALL) == ["letters"]
    assert told.since(15, ALL) == ["letters"]
    assert told.since(25, ALL) == []


def test_before_the_first_look_anything_may_have_changed() -> None:
    told = Changes()
    assert told.since(5, ALL) == [EVERYTHING]
    told.note(10, ALL, {})
    assert told.since(9, ALL) == [EVERYTHING]
    assert told.since(10, ALL) == []


def test_each_sight_hears_of_its_own_alone() -> None:
    told = Changes()
    told.note(10, ALL, {"topic:stay.completed": 1, "topic:booking.created": 1})
    told.note(10, SOME, {"topic:booking.created": 1})
    told.note(20, ALL, {"topic:stay.completed": 2, "topic:booking.created": 1})
    told.note(20, SOME, {"topic:booking.created": 1})
    assert told.since(10, ALL) == ["topic:stay.completed"]
    assert told.since(10, SOME) == []


def test_what_is_remembered_has_a_bound() -> None:
    told = Changes()
    for number in range(changes.MOST_LOOKS + 2):
        told.note(number, ALL, {"audit": number})
    assert told.since(0, ALL) == [EVERYTHING]
    assert told.since(2, ALL) == ["audit"]
    for number in range(changes.MOST_SIGHTS):
        told.note(1_000, (f"team{number}.*",), {})
    assert told.since(999, ALL) == [EVERYTHING]


def test_of_a_name_that_several_features_tell_all_tokens_count() -> None:
    one: dict[str, Hashable] = {"subscription:a/b": 1}
    assert merged([one, {"subscription:a/b": 2}]) != merged([one, {"subscription:a/b": 3}])
    assert merged([one, {}]) != merged([{}, one])


def test_a_stream_is_told_what_changed_since_its_page_was_read() -> None:
    async def run() -> None:
        clock = ManualClock(NOW)
        tokens = iter(range(1_000))

        def look(now_ms: int, scopes: tuple[str, ...]) -> list[LiveCells]:
            return [LiveCells(marks={"letters": next(tokens), "audit": 0})]

        async def yes() -> bool:
            return True

        hub = Hub(look, clock, poll_s=0.01)

        async def heard(since: str) -> list[str]:
            stream = hub.stream(ALL, since, yes)
            async for text in stream:
                if "data: " in text:
                    await stream.aclose()  # type: ignore[attr-defined]
                    changed: list[str] = json.loads(text.split("data: ")[1])["changed"]
                    return changed
            raise AssertionError

        # One that listens on, so that the poller does.
        kept = hub.stream(ALL, "", yes)
        await anext(kept)
        assert await heard("") == []
        assert await heard(str(NOW - 60_000)) == [EVERYTHING]
        assert await heard("no number") == []
        first = hub._tick.number
        assert await heard(str(first)) == ["letters"]
        assert hub._tick.number > first
        await kept.aclose()  # type: ignore[attr-defined]

    asyncio.run(run())
