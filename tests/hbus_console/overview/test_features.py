"""The frame, the first page, the search and the live figures show what a feature brings that they never heard of."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.test import Client

from engine.core.subject import Subject
from hbus_console.access.permissions import SYSTEM, Actor
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.services import record
from hbus_console.overview import concerns, search
from hbus_console.registry import asking, loading
from hbus_console.registry.declaration import Feature, MenuEntry
from hbus_console.ui import live, menu
from hbus_console.ui.concern import Concern, Look
from hbus_console.ui.finding import Hit, HitGroup, group
from hbus_console.ui.live import LiveCells
from tests.hbus_console.kept import kept
from tests.hbus_console.ui.conftest import topic

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
    audit_related=f"{__name__}:know",
)


def count(who: Actor) -> int:
    return len(who.name)


def lying_around(look: Look) -> list[Concern]:
    return [Concern("bad", f"A toy of {look.actor.name} lies around", "since noon", "/ui-kit/", "Pick it up", place=1)]


def find(who: Actor, text: str) -> list[HitGroup]:
    return [group("Toys", [Hit(f"ball called {text}", "red", "/ui-kit/")]), group("Games", [])]


def cells(now_ms: int, scopes: tuple[str, ...]) -> LiveCells:
    return LiveCells(texts={"toys": str(len(scopes))}, rows={"topic/booking.created": {"toys": "3"}})


def know(who: Actor, entry: AuditEntry) -> list[object]:
    return []


@pytest.fixture(autouse=True)
def _toy(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = (*loading.features(), TOY)
    for collector in (asking, menu):
        monkeypatch.setattr(collector, "features", lambda: everything)
    # What the frame remembers is of this installation.
    monkeypatch.setattr(menu, "entries", menu.entries.__wrapped__)


@pytest.fixture
def mistaken(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The toy's functions all fail."""

    def fail(*_: object) -> object:
        raise KeyError("a mistake of the toy")

    for name in ("count", "lying_around", "find", "cells", "know"):
        monkeypatch.setitem(globals(), name, fail)
    loading.resolve.cache_clear()
    yield
    loading.resolve.cache_clear()


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
    kept(0)
    texts = live.event(live.cells(0, ("*",)))["texts"]
    assert isinstance(texts, dict)
    assert texts["toys"] == "1"
    assert texts["dead"] == "0"
    row = {key.rpartition("/")[2]: text for key, text in texts.items() if key.startswith("topic/booking.created/")}
    assert row == {"toys": "3", "dead": "0", "rate": "0", "unsettled": "0"}


@pytest.mark.usefixtures("mistaken")
def test_its_mistake_costs_the_menu_its_count_only(page: Client) -> None:
    html = page.get("/ui-kit/").content.decode()
    assert "Playroom</h2>" in html
    assert 'data-live="toys"' not in html
    assert 'data-live="dead/menu"' in html


@pytest.mark.usefixtures("mistaken")
def test_its_mistake_is_said_on_the_first_page_beside_what_others_tell(page: Client) -> None:
    html = page.get("/").content.decode()
    assert "What needs a person in toys cannot be told" in html
    told = [concern.text for concern in concerns.concerns(Look(SYSTEM, 0))]
    assert "What needs a person in toys cannot be told" in told
    assert len(told) > 1


@pytest.mark.usefixtures("mistaken")
def test_its_mistake_leaves_the_hits_of_others(page: Client) -> None:
    topic("booking.bobby")
    assert [found.title for found in search.find(SYSTEM, "bobby")] == ["Topics", "Not searched"]
    html = page.get("/search/?q=bobby&range=24h").content.decode()
    assert 'href="/search/?q=bobby&amp;range=24h"' in html


@pytest.mark.usefixtures("mistaken")
def test_its_mistake_leaves_the_figures_of_others_moving() -> None:
    kept(0)
    event = live.event(live.cells(0, ("*",)))
    texts = event["texts"]
    assert isinstance(texts, dict)
    assert texts["dead"] == "0"
    assert event["stale"] == "The figures of toys cannot be read; the log says why."


@pytest.mark.usefixtures("mistaken")
def test_its_mistake_is_said_beside_an_audit_entry(page: Client) -> None:
    record(SYSTEM, "toy.made", Subject("toy", "", "ball"))
    seq = AuditEntry.objects.latest("seq").seq
    assert "What toys knows of it cannot be told" in page.get(f"/audit/{seq}/").content.decode()
