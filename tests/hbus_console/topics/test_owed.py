"""Acts that are decided while the store is away: whoever asked is told that they hold once it answers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis
from django.test import Client
from django.urls import reverse

from engine.core.errors import Unavailable
from hbus_console.access.context import RequestContext, as_it_is, bound, current
from hbus_console.deadletters.models import DeadLetter
from hbus_console.deadletters.services import Decision
from hbus_console.outbox import services as outbox
from hbus_console.topics import transport_objects
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus, store

LATER = "Decided, and done once the store takes it, which it does not just now: "


def away(*args: object) -> None:
    raise Unavailable("The store is away.")


@pytest.mark.django_db(databases=["default", "ledger"], transaction=True)
@pytest.mark.parametrize("is_away", [False, True])
@pytest.mark.parametrize(
    ("verb", "said"), [("pause", "Deliveries of booking.created are held."), ("resume", "booking.created is handed")]
)
def test_a_page_says_that_the_store_has_to_be_told_yet(
    topic: Topic, signed_in: Callable[..., Client], monkeypatch: pytest.MonkeyPatch, *,
    verb: str, said: str, is_away: bool,
) -> None:  # fmt: skip
    Topic.objects.update(paused=verb == "resume")
    client = signed_in()
    transport_objects.make_group(topic.subscriptions.create(group="billing", team=topic.team))
    if is_away:
        monkeypatch.setattr(bus, "admin", away)
    page = client.post(reverse(f"topics:{verb}", args=[topic.name]), {"reason": "why"}, follow=True).content.decode()
    assert said in page
    assert (f"{LATER}{said}" in page) is is_away
    assert Topic.objects.get().paused is (verb == "pause")


def test_a_copy_that_lies_in_the_outbox_is_not_said_to_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    letter = DeadLetter(subscription="hook", state=DeadLetter.State.REDRIVEN, redriven_as="01M8")

    def gone() -> None:
        raise redis.ConnectionError("refused")

    with bound(RequestContext("one")):
        assert Decision(letter, done=True).sentence == "Redriven to hook as 01M8."
        monkeypatch.setattr(store, "client", gone)
        outbox.wake_relay()
        assert Decision(letter, done=True).sentence == f"{LATER}Redriven to hook as 01M8."
    # Of another request nothing is owed, and outside of one nobody is there to be told.
    outbox.wake_relay()
    assert (current().owed, as_it_is("Done.")) == ([], "Done.")
    with bound(RequestContext("two")):
        assert as_it_is("Done.") == "Done."
