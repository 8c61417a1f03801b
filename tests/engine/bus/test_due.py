"""Under which key, and for how long, what waited for its due time goes to the transport."""

from __future__ import annotations

from engine.bus.building import DUE_KEYS, Prepared
from engine.bus.catalog import TopicPolicy
from engine.bus.due import DUE_KNOWN_S, prepare_due
from engine.bus.message import Message

SHORT = TopicPolicy("booking.created", owner="inventory", idempotency_window_s=60)
MESSAGE = Message(id="m1", source="/test", type="t", hbusdue="2026-11-28T20:00:00Z")


def test_a_key_of_ours_is_known_for_a_day_however_short_the_window_is() -> None:
    made = prepare_due(SHORT, MESSAGE)
    assert isinstance(made, Prepared)
    assert made.outgoing.idempotency_key.startswith(DUE_KEYS)
    assert made.outgoing.idempotency_window_ms == DUE_KNOWN_S * 1000


def test_a_publishers_key_means_what_it_meant_to_them() -> None:
    made = prepare_due(SHORT, MESSAGE, "theirs")
    assert isinstance(made, Prepared)
    assert (made.outgoing.idempotency_key, made.outgoing.idempotency_window_ms) == ("theirs", 60_000)
