"""Nothing stands still because nothing happens: what a live page says at two moments differs by the clock alone, and
whoever listens is told of it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from django.test import Client

from hbus_console.accounts.models import User
from hbus_console.traffic import standing
from hbus_console.ui import live
from hbus_console.ui.changes import Changes, merged
from tests.hbus_console.access_table import TABLE
from tests.hbus_console.access_world import World, inside, person
from tests.hbus_console.kept import kept
from tests.hbus_console.overview.test_overview import flowing, waiting
from tests.hbus_console.test_access_matrix import KNOWN

pytestmark = [pytest.mark.django_db(databases=["default", "ledger"]), pytest.mark.above_database]

#: Seconds after the first look: each bucket while a rate falls, a minute that ends, and all that is "of late".
STEPS_S = (10, 20, 30, 40, 50, 80, 140, 340, 420)
SCOPES = ("*",)
#: What says something else at each reading, and why nobody need be told of it.
EXCEPT = {
    "cluster/": "each reader has the store measured anew",
    "jobs/nodes/": "each reader has the clocks measured anew",
}
_VOID = frozenset({"input", "br", "link", "meta", "img", "hr", "source", "wbr", "path", "use"})
_SHOWS = re.compile(r'data-shows="([^"]*)"')
#: The key of a form that is sent once.
_KEY = re.compile(r"\b[0-9a-f]{32}\b")


class Said(HTMLParser):
    """What a page says in words: its texts without drawings and without moments that count by themselves, and those of
    the live cells by their keys."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.cells: dict[str, str] = {}
        self._open: list[tuple[str, bool, str, str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _VOID:
            return
        given = dict(attrs)
        _, hidden, row, _ = self._open[-1] if self._open else ("", True, "", "")
        hidden = tag in ("svg", "script") or (hidden and given.get("id") != "content") or "data-ago" in given
        row, key = given.get("data-live-row") or row, given.get("data-live") or ""
        key = row + key if key.startswith("/") else key
        if key:
            self.cells[key] = ""
        self._open.append((tag, hidden, row, key))

    def handle_endtag(self, tag: str) -> None:
        if tag in (name for name, *_ in self._open):
            while self._open.pop()[0] != tag:
                pass

    def handle_data(self, data: str) -> None:
        _, hidden, _, key = self._open[-1] if self._open else ("", True, "", "")
        if data.strip() and not hidden:
            self.words.append(_KEY.sub("", " ".join(data.split())))
        if key:
            self.cells[key] += data.strip()


class Time:
    """The clock of the wall, moved by hand; it begins half a bucket into a minute."""

    def __init__(self) -> None:
        self._begun_ns = time.time_ns() // 60_000_000_000 * 60_000_000_000 + 25_000_000_000
        self.ahead_s = 0

    def ns(self) -> int:
        return self._begun_ns + self.ahead_s * 1_000_000_000

    def ms(self) -> int:
        return self.ns() // 1_000_000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Time:
    made = Time()
    monkeypatch.setattr(time, "time_ns", made.ns)
    monkeypatch.setattr(time, "time", lambda: made.ns() / 1e9)
    return made


@pytest.fixture
def world(clock: Time) -> World:
    """One of everything, with what flowed and was used until now, and from now on nothing more."""
    made = inside()
    flowing(clock.ms(), made.topic, buckets=1, published=50)
    flowing(clock.ms(), made.topic, made.group, buckets=1, settled=50, settled_first=50, duration_us=5_000)
    waiting(clock.ms(), made.topic, made.group, 3)
    return made


@pytest.fixture
def reader(world: World) -> User:
    return person("ada", "admin")


class Pages:
    """Those that live, as one reader sees them."""

    def __init__(self, world: World, reader: User) -> None:
        self._client = Client()
        self._client.force_login(reader)
        #: One that does not live once never will.
        self._addresses = {
            route: world.address(route, reader) + (f"?{TABLE[route].query}" if TABLE[route].query else "")
            for route in KNOWN
            if not route.startswith("api/") and "GET" in TABLE[route].roles and not TABLE[route].keyed
        }

    def read(self) -> Iterator[tuple[str, list[str], Said]]:
        """Each with the names that it shows, and what it says."""
        for route, address in list(self._addresses.items()):
            answer: Any = self._client.get(address)
            is_page = not answer.streaming and answer.headers.get("Content-Type", "").startswith("text/html")
            html = answer.content.decode() if is_page else ""
            shows = _SHOWS.search(html)
            if shows and shows[1].split():
                yield route, shows[1].split(), Said(html)
            else:
                del self._addresses[route]


def concerned(shows: list[str], changed: list[str]) -> bool:
    """As live.js asks it."""
    return any(name == shown or name.startswith((f"{shown}:", f"{shown}/")) for shown in shows for name in changed)


def test_what_ages_on_a_page_is_told_to_who_listens_in_the_words_of_the_page(
    clock: Time, world: World, reader: User
) -> None:
    pages, told = Pages(world, reader), Changes()
    before: dict[str, list[str]] = {}
    stale, differing, seen = [], [], set()
    for number, clock.ahead_s in enumerate((0, *STEPS_S)):
        cells = live.cells(clock.ms(), SCOPES)
        texts: Any = live.event(cells)["texts"]
        told.note(number, SCOPES, merged(part.marks for part in cells))
        changed = told.since(number - 1, SCOPES) if number else []
        for route, shows, said in pages.read():
            odd = [line for line in said.words if line not in before.get(route, ())]
            if number and odd and route not in EXCEPT and not concerned(shows, changed):
                stale.append(f"after {clock.ahead_s} s /{route} says {odd[:3]}, and none of {shows} is in {changed}")
            before[route] = said.words
            if differ := {key: (text, texts[key]) for key, text in said.cells.items() if texts.get(key, text) != text}:
                differing.append(f"after {clock.ahead_s} s /{route} says, and is told: {differ}")
            seen |= said.cells.keys() & texts.keys()
    assert len(before) > 20, "the pages were not found"
    assert f"subscription/{world.topic}/{world.group}/rate" in seen
    assert not stale, "\n".join(stale)
    assert not differing, "\n".join(differing)


def test_a_rate_falls_with_every_bucket_in_which_nothing_comes(clock: Time, world: World) -> None:
    key = f"subscription/{world.topic}/{world.group}/rate"
    told = []
    for clock.ahead_s in (0, 10, 20, 30):
        kept(clock.ms())
        texts: Any = live.event(live.cells(clock.ms(), SCOPES))["texts"]
        told.append((texts["settled"], texts["published"], texts[key], texts[f"topic/{world.topic}/rate"]))
    assert told == [("2.5",) * 4, ("1.7",) * 4, ("0.83",) * 4, ("0",) * 4]
    assert standing.FLOW_FRESH_MS < 10_000
