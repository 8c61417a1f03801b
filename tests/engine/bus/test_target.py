"""A message meant for one subscription: what redriving a dead letter sends."""

from __future__ import annotations

import msgspec

from engine.bus.message import Message
from tests.engine.bus.kit import GROUP, TOPIC, Bus, Recorder, running, until


def send(bus: Bus, target: str) -> Message:
    prepared = bus.producer.prepare(TOPIC, {"n": 1})
    message = msgspec.structs.replace(prepared, hbustarget=target, hbusreplay="redrive")
    bus.producer.send(TOPIC, [message])
    return message


def test_the_target_handles_it(any_bus: Bus) -> None:
    sent = send(any_bus, GROUP)
    handler = Recorder()
    with running(any_bus.consumer(handler)):
        (fact,) = any_bus.facts.wait_for("settled")
    assert [message.id for message in handler.calls] == [sent.id]
    assert fact.message_id == sent.id


def test_another_subscription_settles_it_unhandled_and_without_a_fact(any_bus: Bus) -> None:
    send(any_bus, "somebody-else")
    own = any_bus.publish({"n": 2})
    handler = Recorder()
    with running(any_bus.consumer(handler)):
        any_bus.facts.wait_for("settled")
        until(lambda: any_bus.unsettled() == 0)
    assert [message.id for message in handler.calls] == [own.message_id]
    assert {fact.message_id for fact in any_bus.facts.of("settled")} == {own.message_id}
