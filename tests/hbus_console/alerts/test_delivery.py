"""Messages reach real receivers: signed, repeated until they are taken, and never twice by ourselves."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from django.core import mail
from pytest_django import Settings

from engine.core.clock import ManualClock
from engine.core.http_client import resolve
from engine.core.signing import sign
from hbus_console.access.permissions import SYSTEM
from hbus_console.alerts import services
from hbus_console.alerts.delivery import BACKOFF_S, STALE_MS, AlertNotifier
from hbus_console.alerts.models import Channel, Notification
from hbus_console.audit.models import AuditEntry
from hbus_console.parts import PartsFailed
from tests.hbus_console.alerts.conftest import Watch, rule, webhook

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


class Receiver:
    """An HTTP server that notes what it gets and answers what a test says."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.status = 200
        self.headers: dict[str, str] = {}
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.append((dict(self.headers.items()), body))
                self.send_response(receiver.status, "by its own words")
                for name, value in receiver.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *arguments: object) -> None:
                return

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/hook?token=hush"


@pytest.fixture
def receiver(settings: Settings) -> Iterator[Receiver]:
    settings.HBUS_WEBHOOK_PRIVATE = True
    found = Receiver()
    yield found
    found.server.shutdown()
    found.server.server_close()


@pytest.fixture
def notifier(clock: ManualClock) -> AlertNotifier:
    return AlertNotifier(clock=clock, look_up=resolve)


def fire(watch: Watch, *channels: Channel) -> None:
    rule(threshold=100, channels=tuple(it.name for it in channels), advice="Look at the consumers.")
    watch.go(250)


def test_a_firing_is_posted_once_and_signed(watch: Watch, receiver: Receiver, notifier: AlertNotifier) -> None:
    fire(watch, webhook(url=receiver.url))
    notifier.tick()
    notifier.tick()
    [(headers, body)] = receiver.got
    at_s = watch.clock.now_ms() // 1000
    assert headers["X-Hbus-Signature"] == sign(b"whsec_hush", at_s, body)
    told = json.loads(body)
    assert (told["event"], told["test"], told["rule"]["severity"], told["count"]) == (
        "alert.fired",
        False,
        "warning",
        1,
    )
    assert told["advice"] == "Look at the consumers."
    [alert] = told["alerts"]
    assert alert["sentence"] == "billing on booking.created has unsettled 250 messages (threshold 100 messages)."
    assert alert["owner"] == "Distribution"
    assert alert["url"].startswith("http://localhost:")
    assert "whsec_hush" not in body.decode()
    row = Notification.objects.get()
    assert (row.state, row.attempts, row.answer) == ("sent", 1, "answered 200 OK")
    assert headers["X-Hbus-Notification"] == str(row.pk) == told["id"]


def test_what_is_not_taken_is_tried_again_later_and_later_and_then_given_up(
    watch: Watch, receiver: Receiver, notifier: AlertNotifier
) -> None:
    receiver.status = 503
    fire(watch, webhook(url=receiver.url))
    for number, pause in enumerate(BACKOFF_S, 1):
        notifier.tick()
        assert len(receiver.got) == number
        watch.clock.advance(pause - 1)
        notifier.tick()
        assert len(receiver.got) == number, "not before its time"
        watch.clock.advance(1)
    assert Notification.objects.get().state == "waiting"
    notifier.tick()
    row = Notification.objects.get()
    assert (row.state, row.attempts, row.answer) == ("failed", len(BACKOFF_S) + 1, "answered 503 Service Unavailable")


def test_the_receiver_may_ask_for_more_time(watch: Watch, receiver: Receiver, notifier: AlertNotifier) -> None:
    receiver.status, receiver.headers = 429, {"Retry-After": "120"}
    fire(watch, webhook(url=receiver.url))
    notifier.tick()
    watch.clock.advance(119)
    notifier.tick()
    assert len(receiver.got) == 1
    watch.clock.advance(1)
    receiver.status = 204
    notifier.tick()
    assert Notification.objects.get().state == "sent"


@pytest.mark.parametrize("status", [301, 404])
def test_redirects_are_not_followed_and_a_final_answer_is_not_asked_for_again(
    watch: Watch, receiver: Receiver, notifier: AlertNotifier, status: int
) -> None:
    receiver.status, receiver.headers = status, {"Location": receiver.url}
    fire(watch, webhook(url=receiver.url))
    notifier.tick()
    assert len(receiver.got) == 1
    assert Notification.objects.get().state == ("failed" if status == 404 else "waiting")


def test_an_inner_address_is_not_called_whatever_the_row_says(
    watch: Watch, receiver: Receiver, notifier: AlertNotifier, settings: Settings
) -> None:
    fire(watch, webhook(url=receiver.url))
    settings.HBUS_WEBHOOK_PRIVATE = False
    notifier.tick()
    assert receiver.got == []
    assert "not a public address" in Notification.objects.get().answer


def test_a_receiver_that_is_away_does_not_hold_up_the_others(
    watch: Watch, receiver: Receiver, notifier: AlertNotifier
) -> None:
    fire(watch, webhook("away", "http://127.0.0.1:9/"), webhook("there", receiver.url))
    notifier.tick()
    assert {it.channel.name: it.state for it in Notification.objects.all()} == {"away": "waiting", "there": "sent"}


def test_an_address_that_is_none_and_a_receiver_nobody_foresaw_do_not_hold_up_the_others(
    watch: Watch, receiver: Receiver, clock: ManualClock
) -> None:
    def break_for(host: str, port: int) -> list[str]:
        if host == "broken.example":
            raise KeyError("a mistake of the resolver")
        return resolve(host, port)

    notifier = AlertNotifier(clock=clock, look_up=break_for)
    # Saved before such addresses were refused.
    malformed = ("https://[v1.x]/", "https://partner..example/hook", "http://broken.example/", "http://xn--a/")
    fire(
        watch, *[webhook(f"none-{number}", url) for number, url in enumerate(malformed)], webhook("there", receiver.url)
    )
    with pytest.raises(PartsFailed, match=r"notification .* could not be sent: KeyError"):
        notifier.tick()
    found = {it.channel.name: it for it in Notification.objects.all()}
    assert {name: it.state for name, it in found.items()} == {
        "none-0": "failed",
        "none-1": "waiting",
        "none-2": "waiting",
        "none-3": "failed",
        "there": "sent",
    }
    for name in ("none-0", "none-3"):
        assert found[name].answer.startswith("The channel is not called: the address names no host that can be called")
    assert "partner..example does not resolve" in found["none-1"].answer
    assert found["none-2"].answer == "KeyError: 'a mistake of the resolver'"
    assert all(it.attempts == 1 for it in found.values())
    assert found["none-2"].next_ms > clock.now_ms()


def test_old_news_and_a_channel_that_is_off_are_not_told(
    watch: Watch, receiver: Receiver, notifier: AlertNotifier
) -> None:
    old, off = webhook("old", receiver.url), webhook("off", receiver.url)
    fire(watch, old, off)
    Channel.objects.filter(pk=off.pk).update(enabled=False)
    Notification.objects.filter(channel=old).update(made_ms=watch.clock.now_ms() - STALE_MS - 1)
    notifier.tick()
    assert receiver.got == []
    assert set(Notification.objects.values_list("state", flat=True)) == {"failed"}


def test_a_mail_says_what_where_whose_and_what_to_do(watch: Watch, notifier: AlertNotifier, settings: Settings) -> None:
    settings.EMAIL_HOST = "mail.example"
    fire(watch, Channel.objects.create(name="team", kind="email", recipients=["a@hotel.example", "b@hotel.example"]))
    notifier.tick()
    [letter] = mail.outbox
    assert letter.subject == "[local] Firing: lag 100, billing on booking.created"
    assert letter.to == ["a@hotel.example", "b@hotel.example"]
    for words in ("has unsettled 250 messages", "owner: Distribution", "Look at the consumers.", "/alerts/"):
        assert words in letter.body
    watch.go(0)
    notifier.tick()
    assert mail.outbox[1].subject == "[local] Resolved: lag 100, billing on booking.created"
    assert "over; it peaked at 250 messages" in mail.outbox[1].body


def test_a_test_is_marked_as_one_and_its_answer_is_shown_and_audited(
    receiver: Receiver, notifier: AlertNotifier, settings: Settings
) -> None:
    settings.EMAIL_HOST = "mail.example"
    hook = webhook(url=receiver.url)
    Channel.objects.create(name="mail", kind="email", recipients=["a@hotel.example"])
    made = rule(threshold=100, channels=("on-call", "mail"))
    receiver.status = 500
    tried = {it.channel: (it.taken, it.said) for it in services.try_rule(SYSTEM, made.pk)}
    assert tried == {
        "on-call": (False, "answered 500 Internal Server Error"),
        "mail": (True, "The mail server took it for 1."),
    }
    receiver.status = 200
    assert services.try_channel(SYSTEM, hook.pk).taken
    for _, body in receiver.got:
        told: dict[str, Any] = json.loads(body)
        assert (told["event"], told["test"]) == ("alert.test", True)
        assert told["note"] == "This is a test. Nothing is wrong, and nobody needs to act."
    assert mail.outbox[0].subject.startswith("[local] Test: ")
    assert mail.outbox[0].body.startswith("This is a test.")
    hook.url = "http://xn--a/"
    hook.save()
    assert "names no host that can be called" in services.try_channel(SYSTEM, hook.pk).said
    notifier.tick()
    assert len(receiver.got) == 2, "the duty does not send tests again"
    actions = AuditEntry.objects.order_by("seq").values_list("action", flat=True)
    assert list(actions)[-2:] == ["alert_channel.test", "alert_channel.test"]
