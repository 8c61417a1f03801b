from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.test import Client, RequestFactory
from django.urls import resolve

from hbus_console.accounts.models import User
from hbus_console.registry.declaration import Feature, MenuEntry
from hbus_console.registry.loading import features
from hbus_console.ui import menu
from tests.hbus_console.accounts.conftest import MakeUser
from tests.hbus_console.kept import kept
from tests.hbus_console.ui.conftest import dead_letters

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


def test_a_viewer_is_not_shown_what_viewers_may_not_open(viewer: User, browse: Callable[[User], Client]) -> None:
    html = browse(viewer).get("/ui-kit/").content.decode()
    assert 'data-go="o"' in html
    assert 'data-go="a"' not in html  # the audit log takes an operator


def test_an_operator_of_one_namespace_sees_the_audit_log(make_user: MakeUser, browse: Callable[[User], Client]) -> None:
    html = browse(make_user("otto", "operator", "booking.*")).get("/ui-kit/").content.decode()
    assert 'data-go="a"' in html


def test_the_active_entry_is_marked_once(page: Client) -> None:
    html = page.get("/cluster/").content.decode()
    assert html.count('aria-current="page" data-go=') == 1
    assert 'href="/cluster/" aria-current="page"' in html


def test_the_time_range_holds_on_every_entry(page: Client) -> None:
    html = page.get("/ui-kit/?range=24h").content.decode()
    assert 'href="/cluster/?range=24h"' in html


def test_dead_letters_count_only_what_one_may_see(
    page: Client, viewer: User, browse: Callable[[User], Client], now_ms: int
) -> None:
    kept(now_ms)
    dead_letters(3, "booking.changed")
    dead_letters(4, "stay.completed", fingerprint="02be41")
    assert '<span class="count" data-live="dead/menu">7</span>' in page.get("/ui-kit/").content.decode()
    assert '<span class="count" data-live="dead/menu">3</span>' in browse(viewer).get("/ui-kit/").content.decode()


def test_what_the_features_bring_stands_in_the_order_of_sections_and_places() -> None:
    assert {title: [entry.key for entry in group] for title, group in menu.entries()} == {
        "Bus": ["overview", "topics", "subscriptions", "messages", "dead-letters"],
        "Time": ["jobs", "runs"],
        "Limits": ["quotas"],
        "Data": ["archive", "audits"],
        "Governance": ["audit", "operations", "alerts", "access"],
        "System": ["cluster"],
    }
    assert len({entry.shortcut for _, group in menu.entries() for entry in group}) == 15


@pytest.fixture
def delays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Another engine's feature, installed after ours."""
    entry = MenuEntry("delays", "Delays", "outline/bulb", "cluster:overview", "k", "Later", 10)
    toy = Feature("delays", menu=(entry,), search=("nobody:calls",))
    monkeypatch.setattr(menu, "features", lambda: (*features(), toy))
    menu.entries.cache_clear()
    yield
    menu.entries.cache_clear()


@pytest.mark.usefixtures("delays")
def test_the_section_of_another_engine_stands_beside_the_bus_and_above_what_governs_all() -> None:
    assert [title for title, _ in menu.entries()] == ["Bus", "Time", "Limits", "Data", "Later", "Governance", "System"]


@pytest.mark.usefixtures("delays")
def test_the_list_of_keys_and_the_search_box_tell_what_the_features_declare(page: Client) -> None:
    html = " ".join(page.get("/ui-kit/").content.decode().split())
    for _, group in menu.entries():
        for entry in group:
            assert f"<kbd>g {entry.shortcut}</kbd><span>{entry.title.lower()}</span>" in html
    assert 'aria-label="Search topics, subscriptions, messages, jobs, runs, quotas and delays"' in html
    assert 'placeholder="Topics, subscriptions, messages…"' in html


def test_the_list_of_keys_leaves_out_what_one_may_not_open(viewer: User, browse: Callable[[User], Client]) -> None:
    html = browse(viewer).get("/ui-kit/").content.decode()
    assert "<kbd>g t</kbd>" in html
    assert "<kbd>g a</kbd>" not in html, "the audit log takes an operator"


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/subscriptions/booking.created/billing/order/", "subscriptions"),
        ("/topics/booking.created/subscribe/", "subscriptions"),
        ("/topics/booking.created/", "topics"),
        ("/messages/01K9ZC", "messages"),
        ("/dead-letters/", "dead-letters"),
        ("/access/tokens/new/", "access"),
        ("/theme/", ""),
    ],
)
def test_a_page_that_names_no_entry_belongs_to_the_feature_that_answers(path: str, key: str) -> None:
    request = RequestFactory().get(path)
    assert menu.guess(request) == ""
    request.resolver_match = resolve(path)
    assert menu.guess(request) == key


def test_the_search_is_no_part_of_the_menu(page: Client) -> None:
    assert 'aria-current="page" data-go=' not in page.get("/search/?q=x").content.decode()


def test_nobody_signed_in_has_no_menu() -> None:
    html = Client().get("/login/").content.decode()
    assert "data-go=" not in html
    assert "sse-connect" not in html
