"""What every control plane keeps to, wherever it is asked: in memory, in the store, and over REST."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import pytest
from django.conf import settings

from engine.core.clock import ManualClock
from engine.quota import Book, Rule
from engine.quota.plane import ControlPlane
from engine.quota.planes.memory import MemoryControlPlane
from engine.quota.planes.redis import RedisControlPlane
from engine.quota.protocol import BucketLink, Want
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM
from hbus_console.quotas.services import wanting
from hbus_console.quotas.services.books import give, newest_book
from hbus_console.quotas.services.policies import change_policy
from hbus_console.wiring import quota, store
from tests.hbus_console.quotas.conftest import MakePolicy
from tests.hbus_console.topics.conftest import Caller

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
LIMIT, BURST = 10, 20


class Got(NamedTuple):
    answer: str
    granted: int


class Asked(Protocol):
    """A control plane with one rule for each tenant, asked by nodes of one tenant."""

    def want(self, id_: str, asked: int, node: str = "n1", returned: int = 0, returned_of: str = "") -> Got: ...
    def lose(self) -> None:
        """Everything but the rules, which it is given again."""
        ...


class OfEngine:
    def __init__(self, make: Callable[[], ControlPlane]) -> None:
        self._make = make
        #: Of which bucket each answer was.
        self._born: dict[str, tuple[float, ...]] = {}
        self.lose()

    def lose(self) -> None:
        self._plane = self._make()
        self._plane.keep_rules(*Book(version=1, rules=(Rule(id="rooms", limit=LIMIT, burst=BURST),)).kept())

    def want(self, id_: str, asked: int, node: str = "n1", returned: int = 0, returned_of: str = "") -> Got:
        link, born = BucketLink("rooms", "t"), self._born.get(returned_of, ())
        want = Want(id_, node, "search/rooms/t", "t", (link,), asked, 0.0, returned, born=born)
        (alloc,) = self._plane.want([want])
        self._born[id_] = alloc.born
        return Got(alloc.answer, alloc.granted)


class OfRest:
    def __init__(self, call: Caller) -> None:
        self._call = call

    def lose(self) -> None:
        _flush()

    def want(self, id_: str, asked: int, node: str = "n1", returned: int = 0, returned_of: str = "") -> Got:
        more = {"returned": returned, "returned_of": returned_of}
        want = {"id": id_, "service": "search", "resource": "rooms", "asked": asked, **more}
        answer = self._call("POST", "quota/want", {"node": node, "wants": [want]})
        assert answer.status_code == 200, answer.content
        (alloc,) = answer.json()["allocs"]
        return Got(alloc["answer"], alloc["granted"])


def _flush() -> None:
    for key in store.client().scan_iter(f"{settings.HBUS_PREFIX}*{{quota}}*"):
        store.client().delete(key)


@pytest.fixture
def clock(own_keys: None, prefix: str, monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    moments = ManualClock()
    plane = RedisControlPlane(store.client(), prefix, now=lambda: moments.now_ms() / 1000)
    monkeypatch.setattr(quota, "control_plane", lambda: plane)
    monkeypatch.setattr(wanting, "SystemClock", lambda: moments)
    return moments


@pytest.fixture(params=["memory", "redis", "rest"])
def plane(
    request: pytest.FixtureRequest, clock: ManualClock, calling: Callable[..., Caller], make_policy: MakePolicy
) -> Asked:
    """With a full bucket."""
    made: Asked
    if request.param == "memory":
        made = OfEngine(lambda: MemoryControlPlane(clock))
    elif request.param == "redis":

        def anew() -> ControlPlane:
            _flush()
            return quota.control_plane()

        made = OfEngine(anew)
    else:
        make_policy("rooms", LIMIT, BURST)
        book = newest_book()
        assert book is not None
        give(quota.control_plane(), book)
        made = OfRest(calling(Role.VIEWER))
    clock.advance(1_000)
    return made


def test_tokens_are_sold_once(plane: Asked) -> None:
    assert [plane.want(id_, 15, node).granted for id_, node in (("a", "n1"), ("b", "n2"), ("c", "n1"))] == [15, 5, 0]


def test_a_want_is_carried_out_once_under_its_id(plane: Asked) -> None:
    assert plane.want("a", 15) == plane.want("a", 15) == Got("granted", 15)
    assert plane.want("b", 15).granted == 5


def test_what_is_given_back_is_there_again_once(plane: Asked) -> None:
    plane.want("a", 20)
    first, again = (plane.want("b", 0, returned=5, returned_of="a") for _ in range(2))
    assert first == again
    assert plane.want("c", 20).granted == 5


def test_what_was_sold_before_a_loss_does_not_come_back_after_it(plane: Asked, clock: ManualClock) -> None:
    plane.want("a", 20)
    plane.lose()
    clock.advance(0.5)
    # It is there now, and five came in since.
    assert plane.want("b", 0, node="n2").granted == 0
    assert plane.want("c", 20, returned=15, returned_of="a").granted <= 5
    assert plane.want("d", 20).granted == 0


def test_all_that_is_sold_is_what_came_in_and_the_burst(plane: Asked, clock: ManualClock) -> None:
    sold = 0
    for turn in range(40):
        sold += sum(plane.want(f"{turn}-{node}", 7, node).granted for node in ("n1", "n2", "n3"))
        assert sold <= LIMIT * turn * 0.1 + BURST
        clock.advance(0.1)
    assert sold >= LIMIT * 3.9 + BURST - 1


def test_what_was_sold_before_a_loss_is_not_sold_again(plane: Asked, clock: ManualClock) -> None:
    plane.want("a", 20)
    plane.lose()
    assert plane.want("b", 20).granted == 0
    clock.advance(0.5)
    assert plane.want("c", 20).granted <= 0.5 * LIMIT
    clock.advance(1_000)
    assert plane.want("d", 30).granted == BURST


def test_a_rule_that_it_does_not_know_is_said(clock: ManualClock) -> None:
    for made in (MemoryControlPlane(clock), quota.control_plane()):
        (alloc,) = made.want([Want("a", "n1", "search/rooms/t", "t", (BucketLink("rooms", "t"),), 5, 0.0)])
        assert (alloc.answer, alloc.granted) == ("unknown rule", 0)


def test_over_rest_it_is_said_where_the_rules_are_newer_than_the_console(
    clock: ManualClock, calling: Callable[..., Caller], make_policy: MakePolicy
) -> None:
    make_policy("rooms", LIMIT, BURST)
    change_policy(SYSTEM, "rooms", {"limit": 5.0})
    quota.control_plane().keep_rules(*Book(version=9).kept())
    assert OfRest(calling(Role.VIEWER)).want("a", 5) == Got("unknown rule", 0)
