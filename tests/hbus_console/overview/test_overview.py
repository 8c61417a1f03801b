from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.test import Client
from pytest_django import Settings

from hbus_console.access.permissions import Actor
from hbus_console.accounts.models import User
from hbus_console.deadletters.counting import by_topic, where
from hbus_console.evidence.freshness import Freshness
from hbus_console.messages.models import FlowSample, LagSample
from hbus_console.overview import examples
from hbus_console.overview.examples import Example
from hbus_console.overview.templatetags import overview
from hbus_console.traffic import standing
from hbus_console.traffic.standing import failing, oldest, share
from tests.hbus_console.accounts.conftest import MakeUser
from tests.hbus_console.kept import kept
from tests.hbus_console.ui.conftest import dead_letters, subscription, topic

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


@pytest.fixture(autouse=True)
def keeper(now_ms: int) -> None:
    kept(now_ms)


def flowing(now_ms: int, name: str, group: str = "", buckets: int = 30, **counts: int) -> None:
    last = now_ms - now_ms % 10_000 - 10_000
    FlowSample.objects.bulk_create(
        FlowSample(bucket_ms=last - number * 10_000, topic=name, subscription=group, **counts)
        for number in range(buckets)
    )


def waiting(now_ms: int, name: str, group: str, count: int) -> None:
    LagSample.objects.create(
        at_ms=now_ms - 1000,
        topic=name,
        subscription=group,
        waiting=count,
        in_flight=0,
        retrying=0,
        oldest_ms=now_ms - 1400,
    )


def figure(html: str, key: str) -> str:
    found = re.search(rf'data-live="{key}">([^<]*)<', html)
    assert found, f"no figure {key}"
    return found.group(1)


def test_five_figures_say_how_things_stand(page: Client, now_ms: int) -> None:
    about = topic("booking.created")
    subscription(about, "billing")
    flowing(now_ms, "booking.created", published=4_120)
    flowing(now_ms, "booking.created", "billing", settled=4_000, settled_first=3_999, duration_us=4_000 * 5_000)
    waiting(now_ms, "booking.created", "billing", 1_204)
    dead_letters(2, "booking.created", "billing")
    html = page.get("/").content.decode()
    assert figure(html, "published") == "412"
    assert figure(html, "settled") == "400"
    assert figure(html, "unsettled") == "1,204"
    assert figure(html, "dead") == "2"
    assert figure(html, "handling") == "5"
    assert "99.97 % at first attempt" in html
    assert "all on booking.created" in html


def test_topics_are_sorted_by_trouble(page: Client, now_ms: int) -> None:
    for name in ("quiet", "busy", "lagging", "poisoned"):
        topic(name)
    topic("orphan", team=None)
    flowing(now_ms, "busy", published=900)
    waiting(now_ms, "lagging", "g", 50)
    dead_letters(1, "poisoned")
    names = re.findall(r'<th scope="row"><a[^>]*>([^<]+)</a>', page.get("/").content.decode())
    assert names == ["poisoned", "orphan", "lagging", "busy", "quiet"]


def test_a_viewer_sees_only_their_namespace(viewer: User, browse: Callable[[User], Client], now_ms: int) -> None:
    topic("booking.created")
    topic("stay.completed")
    flowing(now_ms, "stay.completed", published=990)
    dead_letters(5, "stay.completed")
    html = browse(viewer).get("/").content.decode()
    assert "booking.created" in html
    assert "stay.completed" not in html
    assert figure(html, "published") == "0"
    assert figure(html, "dead") == "0"
    assert "Publish a message" not in html


def test_the_frame_says_in_which_namespaces_somebody_acts(
    page: Client, viewer: User, browse: Callable[[User], Client]
) -> None:
    assert "<span>all namespaces</span>" in page.get("/").content.decode()
    html = browse(viewer).get("/").content.decode()
    assert html.count('<span class="mono">booking.*</span>') == 2
    assert "all namespaces" not in html


def test_fifty_topics_stay_few_queries_and_a_small_page(
    page: Client, now_ms: int, django_assert_max_num_queries: Callable[..., object]
) -> None:
    for number in range(60):
        about = topic(f"booking.{number:02}")
        subscription(about, "billing")
        flowing(now_ms, about.name, buckets=36, published=100 + number)
        waiting(now_ms, about.name, "billing", number)
    # Four of them ask whether anybody misses the roles that run jobs, none of which lives here.
    # And one which subscriptions there are: of one without a sample nobody knows what waits.
    with django_assert_max_num_queries(32):  # type: ignore[attr-defined]
        response = page.get("/")
    assert len(response.content) < 62_000
    html = response.content.decode()
    assert html.count('<th scope="row">') == 50
    assert ">60 topics</a> · sorted by trouble" in html


def test_rates_are_served_again_for_a_moment_and_decisions_never(now_ms: int, settings: Settings) -> None:
    about = topic("booking.created")
    subscription(about, "billing")
    flowing(now_ms, about.name, buckets=6, published=100)
    settings.HISTORY_FRESH_S = 10
    standing._recent.clear()
    first, dead = standing.standing(now_ms, ("*",)), by_topic(("*",))
    FlowSample.objects.all().delete()
    dead_letters(2, "booking.created")
    again = standing.standing(now_ms + standing.FLOW_FRESH_MS - 1, ("*",))
    assert again.now is first.now
    assert (dead, by_topic(("*",))) == ({}, {"booking.created": 2})
    assert standing.standing(now_ms + 1, ("booking.*",)).now.topics == {}, "another sight is another reading"
    assert standing.standing(now_ms + standing.FLOW_FRESH_MS, ("*",)).now.topics == {}
    standing._recent.clear()


def test_a_row_that_has_not_changed_is_not_drawn_again(page: Client, now_ms: int) -> None:
    for number in range(5):
        topic(f"booking.{number:02}")
    overview._topic_row.cache_clear()
    page.get("/")
    dead_letters(1, "booking.03")
    html = page.get("/").content.decode()
    assert overview._topic_row.cache_info().misses == 6
    assert html.index("booking.03") < html.index("booking.00")


def test_an_empty_console_offers_an_example_to_who_may_start_it(
    page: Client, make_user: MakeUser, browse: Callable[[User], Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    hotel = Example("hotel", "Start the hotel example", "Real bookings.", lambda actor: None)
    monkeypatch.setattr(examples, "declared", lambda: {"hotel": hotel})
    assert 'action="/examples/hotel/start/"' in page.get("/").content.decode()
    assert "No topic yet" in browse(make_user("ed", "editor")).get("/").content.decode()
    assert "/examples/" not in browse(User.objects.get(username="ed")).get("/").content.decode()


def test_the_page_stands_when_the_store_is_away(page: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    import redis

    from hbus_console.cluster import probes

    away = redis.Redis(host="127.0.0.1", port=1, socket_connect_timeout=1)
    monkeypatch.setattr(probes, "client", lambda: away)
    # Nobody after this test shall take the store for away.
    monkeypatch.setattr(probes, "_away", {})
    topic("booking.created")
    response = page.get("/")
    assert response.status_code == 200
    assert "The store does not answer" in response.content.decode()


def test_it_needs_a_sign_in() -> None:
    response = Client().get("/")
    assert response.status_code == 302
    assert response["Location"].startswith("/login/")


@pytest.mark.parametrize(
    ("part", "text"),
    [(1.0, "100 %"), (0.99997, "99.99 %"), (0.57, "57 %"), (0.5, "50 %"), (0.00001, "0.01 %"), (0.0, "0 %")],
)
def test_a_share_is_all_or_nothing_only_where_it_is(part: float, text: str) -> None:
    assert share(part) == text
    assert " ".join(failing(part)) == text


def test_notes_of_figures_that_are_zero_say_so() -> None:
    assert oldest(None, 5) == "nothing waits"
    known = Freshness.at(5, 5)
    assert where({}, known) == "none waits for a decision"
    assert where({"a": 37, "b": 4}, known) == "37 on a"


def test_starting_an_example_is_audited_and_needs_an_admin(
    page: Client, admin_actor: Actor, viewer: User, browse: Callable[[User], Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    from hbus_console.audit.models import AuditEntry

    started: list[str] = []
    hotel = Example("hotel", "The hotel", "Real bookings.", lambda actor: started.append(actor.name))
    monkeypatch.setattr(examples, "declared", lambda: {"hotel": hotel})
    assert browse(viewer).post("/examples/hotel/start/").status_code == 403
    assert started == []
    assert page.post("/examples/nothing/start/").status_code == 400
    assert page.get("/examples/hotel/start/").status_code == 405
    assert page.post("/examples/hotel/start/").status_code == 302
    assert started == [admin_actor.name]
    entry = AuditEntry.objects.get(action="example.start")
    assert (entry.actor, entry.target) == (admin_actor.name, "hotel")
