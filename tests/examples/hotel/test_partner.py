from __future__ import annotations

from datetime import date

import pytest

from engine.core.errors import BadInput
from examples.hotel import partner
from examples.hotel.events import Stay
from examples.hotel.models import PartnerRoom
from examples.hotel.partner import PartnerTimeout, UnknownRoomCode, add_room, give_back, unknown_rooms
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, Actor, Forbidden, ScopedRole
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.words import did

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partner, "SLOW_S", (0.0, 0.0))
    PartnerRoom.objects.create(code="A", added_by="test")


def stay(room: str = "A") -> Stay:
    return Stay(date(2016, 3, 1), 1, room)


def outcome(booking_id: str) -> int:
    """The attempt that succeeds."""
    for attempt in (1, 2, 3):
        try:
            give_back(booking_id, stay(), attempt)
        except PartnerTimeout:
            continue
        return attempt
    raise AssertionError("it never succeeds")


def test_calls_fail_now_and_then_and_succeed_when_repeated_always_the_same() -> None:
    outcomes = [outcome(f"b{number}") for number in range(2_000)]
    assert outcomes == [outcome(f"b{number}") for number in range(2_000)]
    assert 30 <= outcomes.count(2) <= 80
    assert 2 <= outcomes.count(3) <= 20
    assert outcomes.count(1) > 1_850


def test_an_unknown_room_is_refused_on_every_attempt_until_it_is_added() -> None:
    for attempt in (1, 2, 5):
        with pytest.raises(UnknownRoomCode, match='room code "L" is not in the partner\'s catalogue'):
            give_back("b1", stay("L"), attempt)
    assert unknown_rooms({"A", "L"}) == {"L"}
    assert add_room(SYSTEM, " l ")
    give_back("b1", stay("L"), 5)
    assert unknown_rooms({"A", "L"}) == set()


def test_adding_is_audited_once() -> None:
    assert add_room(SYSTEM, "L")
    assert not add_room(SYSTEM, "L")
    entry = AuditEntry.objects.get(action="hotel.partner_room_add")
    assert (entry.target, entry.namespace) == ("L", "booking.cancelled")
    assert did(entry) == "added to the partner's catalogue the room category"


@pytest.mark.parametrize("code", ["", "  ", "A-1", "ABCDEFGHI", "Ä"])
def test_a_code_that_is_none_is_refused(code: str) -> None:
    with pytest.raises(BadInput):
        add_room(SYSTEM, code)


def test_a_viewer_may_not_add() -> None:
    with pytest.raises(Forbidden):
        add_room(Actor(name="v", grants=(ScopedRole(Role.VIEWER, "*"),)), "L")
    assert not AuditEntry.objects.exists()
