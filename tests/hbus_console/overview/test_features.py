"""The frame, the first page, the search and the live figures show what a feature brings that they never heard of."""

from __future__ import annotations

import pytest
from django.test import Client

from hbus_console.access.permissions import SYSTEM, Actor
from hbus_console.overview import concerns, search
from hbus_console.registry import loading
from hbus_console.registry.declaration import Feature, MenuEntry
from hbus_console.ui import live, menu
from hbus_console.ui.concern import Concern, Look
from hbus_console.ui.finding import Group, Hit, group
from hbus_console.ui.live import LiveCells

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

TOY = Feature(
    name="toys",
    menu=(
        MenuEntry(
            "toys", "Toys", "outline/home", "ui:kit", "y", "Playroom", 1, badge=f"{__name__}:count", badge_live="toys"
        ),
    ),
    concerns=(f"{__name__}:lying_around",),
    search=(f"{__name__}:find",),
    live=(f"{__name__}:cells",),
)


def count(who: Actor) -> int:
    return len(who.name)


def lying_around(look: Look) -> list[Concern]:
    return [Concern("bad", f"A toy of {look.actor.name} lies around", "since noon", "/ui-kit/", "Pick it up", place=1)]


def find(who: Actor, text: str) -> list[Group]:
    return [group("Toys", [Hit(f"ball called {text}", "red", "/ui-kit/")]), group("Games", [])]


def cells(now_ms: int, scopes: tuple[str, ...]) -> LiveCells:
    return LiveCells(texts={"toys": str(len(scopes))}, rows={"topic/booking.created": {"toys": "3"}})


@pytest.fixture(autouse=True)
def _toy(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = (*loading.features(), TOY)
    for collector in (concerns, search, live, menu):
        monkeypatch.setattr(collector, "features", lambda: everything)
    # What the frame remembers is of this installation.
    monkeypatch.setattr(menu, "entries", menu.entries.__wrapped__)


def test_it_has_its_line_in_the_menu_and_its_count(page: Client) -> None:
    html = page.get("/ui-kit/").content.decode()
    assert "Playroom</h2>" in html
    assert 'data-go="y"' in html
    assert '<span class="count" data-live="toys">4</span>' in html


def test_what_of_it_needs_a_person_stands_on_the_first_page(page: Client) -> None:
    html = page.get("/").content.decode()
    assert "A toy of root lies around" in html
    assert "Pick it up" in html
    (first, *_) = concerns.concerns(Look(SYSTEM, 0))
    assert first.link == "Pick it up", "by its place"


def test_the_search_box_finds_it(page: Client) -> None:
    assert "ball called bobby" in page.get("/search/?q=bobby").content.decode()
    assert [found.title for found in search.find(SYSTEM, "bobby")] == ["Toys"]


def test_its_cells_move_beside_those_of_others_in_one_row() -> None:
    texts = live.event(live.cells(0, ("*",)))["texts"]
    assert isinstance(texts, dict)
    assert texts["toys"] == "1"
    assert texts["dead"] == "0"
    row = {key.rpartition("/")[2]: text for key, text in texts.items() if key.startswith("topic/booking.created/")}
    assert row == {"toys": "3", "dead": "0", "rate": "0", "unsettled": "0"}
