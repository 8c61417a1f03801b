"""Test-firing: one message to each channel at once, with the answer for whoever pressed the button."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.core.clock import Clock
from hbus_console.alerts import messages
from hbus_console.alerts.delivery import send
from hbus_console.alerts.models import Channel, Notification, Rule


@dataclass(frozen=True)
class Tried:
    """What one channel answered."""

    channel: str
    taken: bool
    said: str


def try_all(rule: Rule | None, channels: Sequence[Channel], clock: Clock) -> list[Tried]:
    """Send and keep the outcome among the channel's messages. Not in a transaction: receivers may be slow."""
    return [_try(rule, channel, clock) for channel in channels]


def _try(rule: Rule | None, channel: Channel, clock: Clock) -> Tried:
    now_ms = clock.now_ms()
    # Not waiting: the duty must not send it as well, nor after a crash in the middle.
    row = Notification.objects.create(
        channel=channel,
        rule_name=rule.name if rule else "",
        event=Notification.Event.TEST,
        body=messages.sample(rule, channel, now_ms),
        state=Notification.State.FAILED,
        attempts=1,
        made_ms=now_ms,
        next_ms=now_ms,
        answer="No answer was noted.",
    )
    answer = send(channel, row.body, key=str(row.pk), now_ms=now_ms)
    row.answer = answer.said[:300]
    if answer.taken:
        row.state, row.sent_ms = Notification.State.SENT, clock.now_ms()
    row.save(update_fields=["state", "sent_ms", "answer"])
    return Tried(channel.name, answer.taken, answer.said)
