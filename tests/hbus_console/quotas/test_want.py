"""Tokens over HTTP: what a caller says is believed no further than it can be true."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from django.conf import settings

from engine.core.clock import ManualClock
from engine.quota.planes import grants
from engine.quota.planes.redis import RedisControlPlane
from engine.quota.protocol import Alloc, Want
from hbus_console.access.acts import Role
from hbus_console.quotas.services import wanting
from hbus_console.quotas.services.books import give, newest_book
from hbus_console.wiring import quota, store
from tests.hbus_console.quotas.conftest import MakePolicy
from tests.hbus_console.topics.conftest import Caller

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
MINE = "p-viewer-1/test"


@pytest.fixture
def clock(own_keys: None, settings: Any, prefix: str, monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    """Of the control plane and of what asks it."""
    moments = ManualClock()
    plane = RedisControlPlane(store.client(), prefix, now=lambda: moments.now_ms() / 1000)
    monkeypatch.setattr(quota, "control_plane", lambda: plane)
    monkeypatch.setattr(wanting, "SystemClock", lambda: moments)
    return moments


@pytest.fixture
def policy(clock: ManualClock, make_policy: MakePolicy) -> MakePolicy:
    """Makes a policy that has been in force for long, so that its bucket is full."""

    def make(*args: Any, **more: Any) -> Any:
        made = make_policy(*args, **more)
        book = newest_book()
        assert book is not None
        give(quota.control_plane(), book)
        clock.advance(1_000)
        return made

    return make


@pytest.fixture
def call(calling: Callable[..., Caller]) -> Caller:
    return calling(Role.VIEWER)


def _want(
    call: Caller, id_: str, asked: int, *, node: str = "n1", code: int = 200, tenant: str = "", **more: Any
) -> Any:
    want = {"id": id_, "service": "search", "resource": "rooms", "asked": asked, "demand": 100.0, **more}
    answer = call("POST", "quota/want", {"node": node, "wants": [want], **({"tenant": tenant} if tenant else {})})
    assert answer.status_code == code, answer.content
    return answer.json()["allocs"][0] if code == 200 else answer.json()


def test_what_is_granted_is_prepaid_and_told_whole(policy: MakePolicy, call: Caller) -> None:
    policy("narrow", 10, 20)
    told = _want(call, "a", 15)
    assert (told["limited"], told["granted"], told["rule"], told["limit"], told["burst"]) == (
        True,
        15,
        "narrow",
        10,
        20,
    )
    assert (told["lifetime_s"], told["version"], told["on_loss"], told["fallback"]) == (5.0, 1, "fallback", 1.0)
    assert _want(call, "b", 15)["granted"] == 5
    short = _want(call, "c", 15)
    assert (short["granted"], short["again_s"] > 0) == (0, True)


def test_a_repeat_is_answered_as_the_first_time(policy: MakePolicy, call: Caller) -> None:
    policy("narrow", 10, 20)
    assert _want(call, "a", 15) == _want(call, "a", 15)
    assert _want(call, "b", 15)["granted"] == 5


def test_what_nothing_covers_is_not_limited(clock: ManualClock, call: Caller) -> None:
    told = _want(call, "a", 1_000)
    assert (told["limited"], told["granted"], told["limit"], told["rule"]) == (False, 1_000, None, "")


def test_no_more_is_given_back_than_was_got_and_once(policy: MakePolicy, call: Caller) -> None:
    policy("narrow", 10, 20)
    _want(call, "a", 15)
    assert _want(call, "b", 20, returned=1_000, returned_of="a")["granted"] == 20
    # Replayed under other ids, and of answers that never were or were empty.
    for number, of in enumerate(("a", "never", "w0", "w1")):
        assert _want(call, f"w{number}", 20, returned=20, returned_of=of)["granted"] == 0


def test_a_repeat_gives_nothing_back_a_second_time(policy: MakePolicy, call: Caller) -> None:
    policy("narrow", 10, 20)
    _want(call, "a", 20)
    back = {"returned": 5, "returned_of": "a"}
    assert _want(call, "b", 0, **back)["granted"] == 0
    assert _want(call, "c", 0)["granted"] == 0
    # Its answer is forgotten by now, so it is carried out anew.
    _want(call, "b", 0, **back)
    assert _want(call, "d", 20)["granted"] == 5
    # A grant that is answered again is no other grant.
    assert _want(call, "d", 20)["granted"] == 5
    assert _want(call, "e", 20, returned=5, returned_of="d")["granted"] == 5
    assert _want(call, "f", 20, returned=5, returned_of="d")["granted"] == 0


@pytest.mark.parametrize(("takes_s", "back"), [(4.9, 20), (5.0, 0)])
def test_of_an_answer_that_took_longer_than_a_permit_lasts_nothing_is_taken_back(
    policy: MakePolicy, clock: ManualClock, call: Caller, monkeypatch: pytest.MonkeyPatch, *, takes_s: float, back: int
) -> None:
    # By then a repeat may have been remembered and forgotten, and the grant would be remembered as another's.
    policy("narrow", 1e-6, 20)
    clock.advance(1e8)
    plane = quota.control_plane()
    with monkeypatch.context() as slow:
        want = plane.want

        def held_up(wants: Sequence[Want]) -> list[Alloc]:
            allocs = want(wants)
            clock.advance(takes_s)
            return allocs

        slow.setattr(plane, "want", held_up)
        assert _want(call, "a", 20)["granted"] == 20
    assert _want(call, "b", 20, returned=20, returned_of="a")["granted"] == back


def test_nobody_gives_back_what_another_got(policy: MakePolicy, calling: Callable[..., Caller], call: Caller) -> None:
    policy("shared", 10, 20, whose="together")
    other = calling(Role.VIEWER, "rooms")
    assert _want(call, "a", 20)["granted"] == 20
    assert _want(other, "b", 20, returned=20, returned_of="a")["granted"] == 0
    assert _want(call, "b", 20, node="n2", returned=20, returned_of="a")["granted"] == 0
    # Nor does a node of the same name get what the other is answered again.
    assert _want(other, "a", 20)["granted"] == 0


def test_a_change_of_the_rules_takes_nothing_back_into_other_buckets(policy: MakePolicy, call: Caller) -> None:
    policy("narrow", 10, 20)
    _want(call, "a", 20)
    policy("narrower", 1, 1, tenant=MINE)
    assert _want(call, "b", 5)["granted"] == 1
    assert _want(call, "c", 5, returned=20, returned_of="a")["granted"] == 0


def test_no_more_is_repaid_than_could_be_spent_alone(
    policy: MakePolicy, clock: ManualClock, calling: Callable[..., Caller], call: Caller
) -> None:
    policy("shared", 10, 20, whose="together")
    assert _want(call, "a", 20, demand=0.0)["fallback"] == 1.0
    # Who was told nothing owes nothing, and who was told just now could spend nothing alone.
    for node in ("n1", "n2"):
        _want(call, "b", 0, node=node, demand=0.0, repaid=10**9)
    clock.advance(1)
    other = calling(Role.VIEWER, "rooms")
    assert _want(other, "c", 20)["granted"] == 10
    # Two tokens in two seconds, however often it is said.
    clock.advance(1)
    for number in range(3):
        _want(call, f"d{number}", 0, demand=0.0, repaid=10**9)
    assert _want(other, "e", 20)["granted"] == 8


def test_a_tenant_is_named_by_who_may(policy: MakePolicy, calling: Callable[..., Caller], call: Caller) -> None:
    policy("globetrek", 10, 20, tenant="globetrek")
    assert _want(call, "a", 5, tenant="globetrek", code=403)["title"] == "Not allowed"
    assert not _want(call, "a", 5, tenant=MINE)["limited"]
    assert not _want(call, "a", 5)["limited"]
    governor = calling(Role.GOVERNOR)
    assert _want(governor, "a", 5, tenant="globetrek")["rule"] == "globetrek"
    narrow = calling(Role.GOVERNOR, "rooms")
    _want(narrow, "a", 5, tenant="globetrek", code=403)
    assert not _want(narrow, "a", 5)["limited"]


def test_rules_that_the_control_plane_lost_are_given_to_it(policy: MakePolicy, call: Caller) -> None:
    policy("narrow", 10, 20)
    _want(call, "a", 5)
    for key in store.client().scan_iter(f"{settings.HBUS_PREFIX}*{{quota}}*"):
        store.client().delete(key)
    told = _want(call, "b", 5, returned=5, returned_of="a")
    # Of what was sold before nobody knows: its bucket counts as empty.
    assert (told["answer"], told["granted"], quota.control_plane().version()) == ("granted", 0, 1)


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"asked": -1}, "wants[0].asked"),
        ({"weight": 5}, "wants[0].weight"),
        ({"id": "two words"}, "wants[0].id"),
        ({"resource": "a\x00b"}, "wants[0].resource"),
        ({"returned": 3}, "wants[0].returned_of"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(
    clock: ManualClock, call: Caller, more: dict[str, Any], field: str
) -> None:
    want = {"id": "a", "service": "search", "resource": "rooms", "asked": 1, **more}
    answer = call("POST", "quota/want", {"node": "n1", "wants": [want]})
    assert (answer.status_code, answer.json()["field"]) == (422, field), answer.content


def test_one_limiter_is_asked_for_once_and_not_too_many(clock: ManualClock, call: Caller) -> None:
    want = {"id": "a", "service": "search", "resource": "rooms", "asked": 1}
    twice = call("POST", "quota/want", {"node": "n1", "wants": [want, {**want, "id": "b"}]})
    assert (twice.status_code, twice.json()["field"]) == (422, "wants[1].resource")
    many = [{**want, "resource": str(number)} for number in range(201)]
    assert call("POST", "quota/want", {"node": "n1", "wants": many}).status_code == 422
    assert call("POST", "quota/want", {"node": "n1!x", "wants": [want]}).json()["field"] == "node"


def test_nobody_has_more_limiters_ask_than_one_person_may(
    policy: MakePolicy, clock: ManualClock, calling: Callable[..., Caller], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grants, "MOST_ASKING", 3)
    policy("shared", 10, 20, whose="together")
    call, other, governor = calling(Role.VIEWER), calling(Role.VIEWER, "rooms"), calling(Role.GOVERNOR)
    for number in range(3):
        _want(call, "a", 1, node=f"n{number}")
    refused = _want(call, "b", 1, node="n3", code=429)
    assert (refused["title"], refused["field"]) == ("Quota exceeded", "node")
    assert _want(call, "b", 1, node="n3", resource="others", code=429)
    # Those that ask already go on, others' are their own, and who may ask for all tenants has as many as there are.
    for number in range(3):
        _want(call, "c", 1, node=f"n{number}")
    _want(other, "a", 1, node="n3")
    for number in range(5):
        _want(governor, "a", 1, node=f"n{number}")
    # The same key may be scanned twice.
    claims = set(store.client().scan_iter(f"{settings.HBUS_PREFIX}*{{quota}}:claims:*shared*"))
    assert sum(int(store.client().hlen(key)) for key in claims) == 9  # type: ignore[arg-type]
    clock.advance(grants.ASKING_MS / 1000 + 1)
    _want(call, "d", 1, node="n3")


def test_what_is_not_limited_counts_for_nothing(
    clock: ManualClock, call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grants, "MOST_ASKING", 1)
    for number in range(3):
        _want(call, "a", 1, node=f"n{number}")


def test_what_holds_is_told(policy: MakePolicy, call: Caller) -> None:
    policy("narrow", 10, 20, weight=2.0)
    told = call("GET", "quota/limits?service=search&resource=rooms").json()
    assert (told["tenant"], told["limited"], told["weight"]) == (MINE, True, 2.0)
    assert [(each["rule"], each["limit"], each["whose"]) for each in told["rules"]] == [("narrow", 10.0, "each")]
    assert call("GET", "quota/limits?service=search&resource=rooms&tenant=ada").status_code == 403
