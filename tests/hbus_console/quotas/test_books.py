"""Books reach the control plane, whatever was away meanwhile, and change when an override begins."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from engine.core.clock import ManualClock
from engine.quota.plane import KeptBook
from engine.quota.planes.memory import MemoryControlPlane
from engine.quota.terms import Name
from hbus_console.access.permissions import SYSTEM
from hbus_console.audit.models import AuditEntry
from hbus_console.quotas.keeping import BookKeeper
from hbus_console.quotas.services.books import newest_book
from hbus_console.quotas.services.policies import change_policy
from hbus_console.wiring import quota
from tests.hbus_console.quotas.conftest import MakePolicy

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
#: Far ahead: what is saved now is saved before it.
SALE_MS = round(datetime(2096, 11, 27, tzinfo=UTC).timestamp() * 1000)


def test_what_is_saved_is_in_force_at_once(make_policy: MakePolicy, committed: Callable[..., None]) -> None:
    committed(lambda: make_policy("everyone", 2000))
    plane = quota.control_plane()
    assert plane.version() == 1
    committed(lambda: change_policy(SYSTEM, "everyone", {"limit": 5.0}))
    assert plane.version() == 2


def test_the_keeper_gives_what_could_not_be_given(make_policy: MakePolicy) -> None:
    make_policy("everyone", 2000)
    plane = MemoryControlPlane()
    assert plane.version() == 0
    keeper = BookKeeper(plane)
    keeper.tick()
    assert plane.version() == 1
    keeper.tick()
    assert AuditEntry.objects.filter(action__startswith="quota.").count() == 1


def test_a_store_that_is_ahead_of_a_restored_database_gets_a_later_book(make_policy: MakePolicy) -> None:
    make_policy("everyone", 2000)
    plane = MemoryControlPlane()
    plane.keep_rules(KeptBook(41, b"of later days"), {})
    BookKeeper(plane).tick()
    assert plane.version() == 42
    book = newest_book()
    assert book is not None
    assert (book.version, book.rules[0].limit) == (42, 2000)
    assert AuditEntry.objects.latest("seq").action == "quota.renumber"


def test_an_override_begins_and_ends_by_itself(make_policy: MakePolicy) -> None:
    clock = ManualClock(SALE_MS - 1)
    make_policy("everyone", 10, 20, overrides="2096-11-27T00:00..2096-11-28T06:00 120 black friday")
    plane = MemoryControlPlane()
    keeper = BookKeeper(plane, clock=clock)

    def limit() -> tuple[float, float]:
        keeper.tick()
        book = newest_book()
        assert book is not None
        assert book.version == plane.version()
        terms = book.resolve(Name("api", "x", "y"), 0)
        return terms.limit, terms.burst

    assert limit() == (10, 20)
    clock.advance(0.001)
    assert limit() == (120, 240)
    clock.advance(30 * 3600)
    assert limit() == (10, 20)
    assert limit() == (10, 20)
    assert AuditEntry.objects.filter(action="quota.scheduled").count() == 2
