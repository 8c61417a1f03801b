"""Requests: charged to who is signed in, refused with the policy's name, given back when they fail here."""

from __future__ import annotations

import time
from asyncio import CancelledError
from collections.abc import Callable, Iterator

import pytest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.test import Client
from pytest_django import Settings

from engine.core.facts import MemoryFacts
from engine.quota.planes.memory import MemoryControlPlane
from engine.quota.seating import SeatRules
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM
from hbus_console.access.web import actor
from hbus_console.quotas import door as doors
from hbus_console.quotas.door import QuotaDoor
from hbus_console.quotas.models import QuotaPolicy
from hbus_console.quotas.requests import QuotaMiddleware, charge, leave_after
from hbus_console.quotas.services.books import give, newest_book
from hbus_console.quotas.wording import CONSOLE
from hbus_console.topics.services import TopicDraft, create_topic
from hbus_console.wiring import quota
from tests.hbus_console.quotas.conftest import MakePolicy
from tests.hbus_console.topics.conftest import Caller

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> Iterator[Callable[[], QuotaDoor]]:
    """Opens the door of this process, by the policies that there are."""
    made: list[QuotaDoor] = []

    def open_door() -> QuotaDoor:
        moments = iter([0.0])
        plane = MemoryControlPlane(now=lambda: next(moments, 1e6 + time.monotonic()))
        if (book := newest_book()) is not None:
            give(plane, book)
        made.append(QuotaDoor("web", plane, MemoryFacts(), seats=quota.seat_plane()))
        made[0].node.start()
        settings.HBUS_QUOTAS = True
        monkeypatch.setattr(doors, "door", lambda: made[0])
        return made[0]

    yield open_door
    for each in made:
        each.close()


def test_the_api_tells_the_policy_and_when_to_come_again(
    make_policy: MakePolicy, opened: Callable[[], QuotaDoor], calling: Callable[..., Caller]
) -> None:
    make_policy("readers", 0.5, 2, service="api", resource="GET *")
    opened()
    call = calling(Role.VIEWER)
    answers = [call("get", "topics") for _ in range(3)]
    assert [each.status_code for each in answers] == [200, 200, 429]
    first, _, last = answers
    assert first["RateLimit-Policy"] == '"readers";q=2;w=4'
    assert first["RateLimit"] == '"readers";r=1;t=2'
    assert last["Content-Type"] == "application/problem+json"
    told = last.json()
    assert (told["type"], told["violated-policies"]) == ("urn:hbus:problem:quota-exceeded", ["readers"])
    assert 1 <= int(last["Retry-After"]) <= 3
    assert call("post", "topics", {}).status_code != 429


def test_nobody_else_is_touched_and_no_header_says_who_one_is(
    make_policy: MakePolicy, opened: Callable[[], QuotaDoor], calling: Callable[..., Caller]
) -> None:
    make_policy("readers", 0.1, 1, service="api")
    opened()
    viewer, editor = calling(Role.VIEWER), calling(Role.EDITOR)
    assert viewer("get", "topics").status_code == 200
    assert viewer("get", "topics", headers={"X-Tenant": "somebody"}).status_code == 429
    assert editor("get", "topics").status_code == 200


def test_a_page_is_refused_in_the_house_s_design(
    make_policy: MakePolicy, opened: Callable[[], QuotaDoor], signed_in: Callable[..., Client]
) -> None:
    make_policy("nobody", 0, 0)
    opened()
    refused = signed_in(Role.VIEWER).get("/topics/")
    assert (refused.status_code, refused["Retry-After"]) == (429, "60")
    assert b"Too much at once" in refused.content
    assert b"by the policy nobody" in refused.content
    assert b'href="/quotas/"' in refused.content


@pytest.mark.parametrize("period", ["", "at once"])
def test_whoever_holds_everybody_to_nothing_finds_the_way_back(
    make_policy: MakePolicy,
    opened: Callable[[], QuotaDoor],
    signed_in: Callable[..., Client],
    calling: Callable[..., Caller],
    period: str,
) -> None:
    make_policy("nobody", 0, 0, period=period)
    opened()
    page, call = signed_in(Role.GOVERNOR), calling(Role.GOVERNOR)
    assert [page.get(path).status_code for path in ("/", "/topics/", "/quotas/try/", "/metrics", "/healthz")] == [
        429
    ] * 5
    assert call("get", "topics").status_code == 429
    # Whoever has no session is nobody on a page, and is held to nothing there.
    assert [Client().get(path).status_code for path in ("/metrics", "/healthz")] == [200] * 2
    assert call("get", "quota/policies").status_code == 200
    assert call("patch", "quota/policies/nobody", {"description": "too little"}).status_code == 200
    assert Client().get("/login/").status_code == 200
    assert page.get("/password/").status_code == 200
    one = "/quotas/policies/nobody"
    for path in (
        "/quotas/",
        f"{one}/",
        f"{one}/settings/",
        "/quotas/plans/",
        "/quotas/versions/",
        "/quotas/versions/1/",
    ):
        assert page.get(path).status_code == 200
    answer = page.post(f"{one}/delete/", {"typed_name": "nobody", "reason": "locked out"}, follow=True)
    assert (answer.status_code, answer.redirect_chain[-1][0]) == (200, "/quotas/")
    assert not QuotaPolicy.objects.exists()


def test_what_failed_here_is_given_back(
    make_policy: MakePolicy,
    opened: Callable[[], QuotaDoor],
    calling: Callable[..., Caller],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_policy("readers", 0.01, 1, service="api")
    here = opened()
    call = calling(Role.VIEWER)

    def broken(*_: object, **__: object) -> None:
        assert not here.gate.admit("api", "GET topics", "p-viewer-1/test").ok, "it took the only one"
        raise RuntimeError("planted")

    with monkeypatch.context() as patched:
        patched.setattr("hbus_console.topics.api.topics.Topics.get", broken)
        with pytest.raises(RuntimeError, match="planted"):
            call("get", "topics")
    assert here.gate.limiter("api", "GET topics", "p-viewer-1/test").wait(timeout=5)


def test_a_route_costs_what_its_pattern_says(
    make_policy: MakePolicy, opened: Callable[[], QuotaDoor], calling: Callable[..., Caller], settings: Settings
) -> None:
    from hbus_console.quotas import requests

    settings.HBUS_QUOTA_COSTS = {"v1:topics": 3, "v1:teams": 0}
    requests._priced.cache_clear()
    make_policy("readers", 0.01, 5, service="api")
    opened()
    call = calling(Role.VIEWER)
    assert [call("get", "topics").status_code for _ in range(2)] == [200, 429]
    assert [call("get", "teams").status_code for _ in range(9)] == [200] * 9
    requests._priced.cache_clear()


def test_without_a_policy_nothing_is_told(opened: Callable[[], QuotaDoor], calling: Callable[..., Caller]) -> None:
    opened()
    answer = calling(Role.VIEWER)("get", "topics")
    assert answer.status_code == 200
    assert "RateLimit" not in answer


def test_so_many_requests_are_answered_at_once_and_a_stream_until_it_is_closed(
    make_policy: MakePolicy, opened: Callable[[], QuotaDoor], calling: Callable[..., Caller]
) -> None:
    make_policy("two-at-once", 2, service="api", period="at once")
    gate, call, seats = opened().gate, calling(Role.VIEWER), quota.seat_plane()
    who = ("api", "GET topics", "p-viewer-1/test")
    (link,) = SeatRules(newest_book).links(*who)
    assert [call("get", "topics").status_code for _ in range(4)] == [200] * 4, "who was answered has left"
    assert not seats.seen(link)
    held = [gate.enter(*who) for _ in range(2)]
    refused = call("get", "topics")
    assert (refused.status_code, refused["Retry-After"]) == (429, "1")
    assert refused.json()["violated-policies"] == ["two-at-once"]
    held[0].leave()
    assert call("get", "topics").status_code == 200
    stream = StreamingHttpResponse(iter([b"a", b"b"]))
    leave_after(gate.enter(*who), stream)
    assert seats.seen(link).total() == 2
    stream.close()
    assert seats.seen(link).total() == 1


def test_who_is_over_the_rate_takes_no_seat(
    make_policy: MakePolicy, opened: Callable[[], QuotaDoor], calling: Callable[..., Caller]
) -> None:
    make_policy("one-at-once", 1, service="api", period="at once")
    make_policy("nothing", 0, 0, service="api", resource="GET topics")
    opened()
    call = calling(Role.VIEWER)
    assert [call("get", "topics").json()["violated-policies"] for _ in range(2)] == [["nothing"]] * 2
    (link,) = SeatRules(newest_book).links("api", "GET topics", "p-viewer-1/test")
    assert not quota.seat_plane().seen(link)


def test_whoever_hangs_up_leaves_the_seat(
    make_policy: MakePolicy, opened: Callable[[], QuotaDoor], signed_in: Callable[..., Client]
) -> None:
    """Found by a stranger: a tab that was closed before the answer kept its seat for as long as the process lived."""
    make_policy("one-at-once", 1, service="console", period="at once")
    opened()
    page, seated = signed_in(Role.VIEWER), []

    def hung_up(request: HttpRequest) -> HttpResponse:
        charge(request, CONSOLE, actor(request))
        seated.append(request.quota_charge[4].ok)  # type: ignore[attr-defined]
        raise CancelledError

    request = page.get("/topics/").wsgi_request
    middleware = QuotaMiddleware(hung_up)
    for _ in range(3):
        with pytest.raises(CancelledError):
            middleware(request)
    assert seated == [True] * 3


def test_what_another_limit_refused_is_told_of_that_limit(
    make_policy: MakePolicy, opened: Callable[[], QuotaDoor], calling: Callable[..., Caller]
) -> None:
    make_policy("callers", 50, 50, service="api")
    make_policy("writers", 0, 0, service="publish")
    opened()
    call = calling()
    create_topic(SYSTEM, TopicDraft("booking.created", "Reservations"))
    refused = call("post", "topics/booking.created/messages", {"data": {}})
    assert (refused.status_code, refused.json()["violated-policies"]) == (429, ["writers"])
    assert refused["RateLimit"].endswith(";t=1"), "who asks again is not held up by the limit of requests"


@pytest.mark.parametrize(
    ("route", "cost"),
    [
        *((route, 1) for route in ("v1:quota-want", "v1:quota-limits", "quotas:try", "quotas:try-chart")),
        *((f"v1:quota-{name}", 0) for name in ("policies", "policy", "books-roll-back", "plan")),
        ("quotas:settings", 0),
    ],
)
def test_what_changes_a_limit_stays_reachable_and_no_more(route: str, cost: int) -> None:
    from hbus_console.quotas import requests

    assert requests._priced("POST", route)[1] == cost
