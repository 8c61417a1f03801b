"""The duty that sends what was left for the channels, until it is taken or given up, and never twice at once."""

from __future__ import annotations

import json
import smtplib
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx
import structlog
from django.conf import settings
from django.core.mail import EmailMessage

from engine.core.clock import Clock, SystemClock, to_datetime
from engine.core.error_text import storable, text_of, words_of
from engine.core.errors import BadInput
from engine.core.http_client import Resolve, UncallableAddress, resolve
from engine.core.http_told import told_failure, told_status
from engine.core.signing import PASSING, SIGNATURE_HEADER, retry_after_s, sign
from hbus_console.alerts import messages
from hbus_console.alerts.models import Channel, Notification
from hbus_console.outgoing import client
from hbus_console.parts import Parts

#: Seconds to the next try after each failure; after the last one it is given up.
BACKOFF_S = (5, 15, 60, 300, 900, 3600, 7200)
#: A receiver's wish to wait is granted up to this.
LONGEST_WAIT_S = 3600
TIMEOUT_S = 10.0
#: Messages sent in one tick: bounds how long a tick lasts when every receiver hangs.
BATCH = 5
#: A firing that could not be told for so long is told no more.
STALE_MS = 24 * 3_600_000
_ANSWER = 300

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Answer:
    """What became of one try. ``final``: another try would end the same."""

    taken: bool
    said: str
    final: bool = False
    wait_s: float = 0.0


class AlertNotifier:
    """A crash between sending and noting it sends again: receivers know a repeat by ``X-Hbus-Notification``."""

    name = "alert-notifications"
    interval_s = 2.0

    def __init__(self, *, clock: Clock | None = None, look_up: Resolve = resolve) -> None:
        self._clock = clock or SystemClock()
        self._look_up = look_up

    def tick(self) -> None:
        """Send what is due, the longest-waiting first. Raises what broke over some of it at the end."""
        parts = Parts("{parts} could not be sent")
        due = Notification.objects.filter(state=Notification.State.WAITING, next_ms__lte=self._clock.now_ms())
        for row in due.select_related("channel").order_by("next_ms", "pk")[:BATCH]:
            parts.do(f"notification {row.pk}", partial(self._send, row))
        parts.tell()

    def _send(self, row: Notification) -> None:
        try:
            answer = self._try(row)
        except Exception as error:
            # It waits like any other that failed: tried first at every tick, it would hold up all behind it.
            note(row, Answer(False, text_of(error)), self._clock.now_ms())
            raise
        note(row, answer, self._clock.now_ms())

    def _try(self, row: Notification) -> Answer:
        now_ms = self._clock.now_ms()
        if not row.channel.enabled:
            return Answer(False, "The channel is switched off.", final=True)
        if now_ms - row.made_ms > STALE_MS:
            return Answer(False, f"Given up after a day. {row.answer}".strip(), final=True)
        return send(row.channel, row.body, key=str(row.pk), now_ms=now_ms, look_up=self._look_up)


def note(row: Notification, answer: Answer, now_ms: int) -> None:
    """Write down what became of a try, and when the next one is due."""
    attempts = row.attempts + 1
    values: dict[str, Any] = {"attempts": attempts, "answer": storable(answer.said, _ANSWER)}
    if answer.taken:
        values |= {"state": Notification.State.SENT, "sent_ms": now_ms}
    elif answer.final or attempts > len(BACKOFF_S):
        values |= {"state": Notification.State.FAILED}
        _log.error("alert not delivered", channel=row.channel.name, rule=row.rule_name, answer=answer.said[:_ANSWER])
    else:
        values["next_ms"] = now_ms + round(max(BACKOFF_S[attempts - 1], answer.wait_s) * 1000)
    Notification.objects.filter(pk=row.pk, state=Notification.State.WAITING).update(**values)


def send(channel: Channel, body: dict[str, Any], *, key: str, now_ms: int, look_up: Resolve = resolve) -> Answer:
    """One try. What goes wrong on the way is part of the answer; it never holds the channel's secret."""
    if channel.kind == Channel.Kind.EMAIL:
        return _mail(channel, body)
    return _call(channel, body, key, now_ms, look_up)


def _call(channel: Channel, body: dict[str, Any], key: str, now_ms: int, look_up: Resolve) -> Answer:
    content = json.dumps(
        {"id": key, **body, "subject": messages.subject(body), "text": messages.text(body)}, ensure_ascii=False
    ).encode()
    headers = {
        "Content-Type": "application/json",
        "X-Hbus-Notification": key,
        SIGNATURE_HEADER: sign(channel.secret.encode(), now_ms // 1000, content),
    }
    try:
        # Streamed, so that the answer's body is never read.
        with (
            client(TIMEOUT_S, look_up=look_up) as http,
            http.stream("POST", channel.url, content=content, headers=headers) as response,
        ):
            status = response.status_code
            said = f"answered {told_status(status)}"
            asked = retry_after_s(response.headers.get("Retry-After", ""), to_datetime(now_ms))
    except BadInput as refused:
        return Answer(False, str(refused))
    except UncallableAddress as error:
        return Answer(False, f"The channel is not called: {words_of(error)}. Give it another address.", final=True)
    except httpx.HTTPError as error:
        return Answer(False, told_failure(error))
    if 200 <= status < 300:
        return Answer(True, said)
    return Answer(False, said, 400 <= status < 500 and status not in PASSING, min(asked or 0.0, LONGEST_WAIT_S))


def _mail(channel: Channel, body: dict[str, Any]) -> Answer:
    if not settings.EMAIL_HOST:
        return Answer(False, "This installation has no mail server: set EMAIL_HOST.", final=True)
    letter = EmailMessage(messages.subject(body), messages.text(body), to=channel.recipients)
    try:
        letter.send()
    except (OSError, smtplib.SMTPException) as error:
        return Answer(False, text_of(error))
    return Answer(True, f"The mail server took it for {len(channel.recipients)}.")
