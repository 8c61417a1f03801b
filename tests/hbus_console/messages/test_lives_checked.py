"""What lay in a topic that began anew before anybody looked is not taken for compared."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.core.clock import ManualClock, SystemClock, to_datetime
from hbus_console.messages.models import LedgerCheck
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus, store
from tests.hbus_console.messages.conftest import TOPIC, publish
from tests.hbus_console.messages.test_checking import Check, check, row

__all__ = ["check"]

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


def began_ms() -> int:
    admin = bus.transport("").admin
    found: int = admin.began_ms(TOPIC)  # type: ignore[attr-defined]
    return found


def test_what_went_with_an_emptied_store_is_told_as_not_compared(
    check: Check, book: Callable[[], None], prefix: str
) -> None:
    publish()
    book()
    check.tick()
    assert (row().checked, row().skipped_ms) == (1, 0)
    looked = SystemClock().now_ms() - 50_000
    LedgerCheck.objects.update(until_ms=looked)
    for key in store.client().scan_iter(f"{prefix}:{{{TOPIC}}}:*"):
        store.client().delete(key)
    publish()
    assert began_ms() > looked
    book()
    check.tick()
    assert (row().checked, row().skipped_ms) == (2, began_ms() - looked)
    check.tick()
    assert row().skipped_ms == began_ms() - looked


def test_nothing_is_missed_before_a_topic_that_is_new(check: Check, book: Callable[[], None]) -> None:
    publish()
    book()
    check.tick()
    assert (row().checked, row().skipped_ms) == (1, 0)
    assert row().until_ms >= began_ms()


def test_what_lay_elsewhere_before_a_topic_came_here_is_told_as_not_compared(
    check: Check, book: Callable[[], None]
) -> None:
    publish()
    book()
    made = to_datetime(began_ms() - 70_000)
    Topic.objects.filter(name=TOPIC).update(created_at=made, moved_at=made)
    check.tick()
    assert (row().checked, row().skipped_ms) == (1, 70_000)


def test_a_topic_that_began_a_moment_ago_waits_for_its_first_look(check: Check, book: Callable[[], None]) -> None:
    publish()
    book()
    check.clock = ManualClock(SystemClock().now_ms())
    check.tick()
    assert not LedgerCheck.objects.filter(topic=TOPIC).exists()
