"""A backlog of which nobody can tell is never said to be none, nor to be at its end."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from engine.core.facts import NullFacts
from hbus_console.access.permissions import Actor
from hbus_console.messages.models import LagSample
from hbus_console.subscriptions import services, subscription_page
from hbus_console.subscriptions import standing as subscription_standing
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services import SubscriptionDraft
from hbus_console.topics.models import Topic
from hbus_console.traffic import concerns, live
from hbus_console.traffic.sampler import LagSampler
from hbus_console.traffic.standing import standing
from hbus_console.ui.concern import Look
from hbus_console.wiring import bus
from tests.hbus_console.subscriptions.test_draining import stamp
from tests.hbus_console.topics.conftest import EDITOR, committed, own_keys, signed_in, team
from tests.hbus_console.topics.conftest import topic as booking
from tests.hbus_console.topics.hidden_backlog import hide_backlog
from tests.hbus_console.ui.conftest import subscription, topic

__all__ = ["booking", "committed", "own_keys", "signed_in", "team"]

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

NAME, GROUP = "booking.created", "billing"


def sampled(now_ms: int, group: str, waiting: int | None, age_ms: int | None = None, **counts: int) -> None:
    LagSample.objects.create(
        at_ms=now_ms, topic=NAME, subscription=group, waiting=waiting, in_flight=counts.get("in_flight", 0),
        retrying=0, oldest_ms=None if age_ms is None else now_ms - age_ms,
    )  # fmt: skip


def texts(now_ms: int) -> dict[str, str]:
    told = live.told(standing(now_ms, ("*",)), now_ms, [NAME])
    rows = {f"{row}/{column}": text for row, columns in told.rows.items() for column, text in columns.items()}
    return {key: text for key, text in {**told.texts, **rows}.items() if "unsettled" in key}


def text_of(browser: Client, path: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", browser.get(path).content.decode()).split())


def test_what_the_store_cannot_tell_is_no_number(now_ms: int, page: Client) -> None:
    subscription(topic(NAME), GROUP)
    sampled(now_ms, GROUP, None)
    assert texts(now_ms) == {
        "unsettled": "–",
        "unsettled/note": "what waits is not known",
        f"topic/{NAME}/unsettled": "–",
        f"subscription/{NAME}/{GROUP}/unsettled": "–",
        f"subscription/{NAME}/{GROUP}/unsettled/note": "– waiting",
    }
    overview, of_topic = text_of(page, "/"), text_of(page, f"/topics/{NAME}/")
    for shown in (overview, of_topic):
        assert "Unsettled – what waits is not known" in shown
        assert "nothing waits" not in shown.casefold()


def test_what_is_known_of_some_is_so_many_at_least(now_ms: int) -> None:
    about = topic(NAME)
    for group in (GROUP, "loyalty", "search"):
        subscription(about, group)
    sampled(now_ms, GROUP, 40, 1_400)
    sampled(now_ms, "loyalty", None, in_flight=2)
    told = texts(now_ms)
    assert (told["unsettled"], told["unsettled/note"]) == ("≥ 42", "oldest 1.4 s or more")
    assert told[f"topic/{NAME}/unsettled"] == "≥ 42"
    assert told[f"subscription/{NAME}/loyalty/unsettled"] == "≥ 2"
    # Nobody has heard of the third at all, as when the store of its topic is away.
    assert told[f"subscription/{NAME}/search/unsettled"] == "–"
    assert told[f"subscription/{NAME}/search/unsettled/note"] == "what waits is not known"


def test_a_topic_that_nobody_reads_has_nothing_unsettled(now_ms: int) -> None:
    topic(NAME)
    assert texts(now_ms) == {"unsettled": "0", "unsettled/note": "nothing waits", f"topic/{NAME}/unsettled": "0"}


def told_of(actor: Actor, now_ms: int) -> list[tuple[str, str]]:
    return [(each.text, each.note) for each in concerns.concerns(Look(actor, now_ms))]


def test_it_needs_a_person_and_falls_behind_by_the_age_of_what_is_known(admin_actor: Actor, now_ms: int) -> None:
    about = topic(NAME)
    for group in (GROUP, "loyalty", "search"):
        subscription(about, group)
    sampled(now_ms, GROUP, None, 7_200_000)
    sampled(now_ms, "loyalty", None)
    expected = [
        (f"{GROUP} on {NAME} falls behind", "how many wait is not known, the oldest for 2 h"),
        (f"What waits for loyalty on {NAME} is not known", "its store cannot be asked, or cannot tell"),
    ]
    assert told_of(admin_actor, now_ms) == expected, "of what was made this moment nobody can have heard"
    Subscription.objects.update(created_at=timezone.now() - timedelta(hours=1))
    search = f"What waits for search on {NAME} is not known"
    assert told_of(admin_actor, now_ms) == [*expected, (search, expected[1][1])]


@pytest.fixture
def beyond(booking: Topic, committed: Callable[..., None], prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody runs it, and more wait for it than the store counts."""
    committed(lambda: services.create_subscription(EDITOR, SubscriptionDraft(NAME, GROUP, "Reservations")))
    Subscription.objects.update(handler_name="hotel.handlers:bill")
    hide_backlog(prefix, NAME, GROUP, monkeypatch)
    for each in (subscription_standing, subscription_page):
        # However slow the machine is, nothing has waited for long.
        monkeypatch.setattr(each, "BEHIND_MS", 3_600_000)
    stamp(prefix, "c1", in_flight=0, age_ms=-300_000)


def test_no_page_says_that_it_keeps_up(beyond: None, signed_in: Callable[..., Client]) -> None:
    browser = signed_in()
    LagSampler(bus.admin, NullFacts()).tick()
    own = text_of(browser, f"/subscriptions/{NAME}/{GROUP}/")
    assert "Nobody knows whether it keeps up: the store cannot tell how many wait." in own
    assert "what waits stays" in own
    assert f"{GROUP} unknown" in own
    assert f"Nobody knows whether {GROUP} keeps up." in text_of(browser, f"/topics/{NAME}/")
    listed = text_of(browser, "/subscriptions/")
    assert "1 not known" in listed
    assert "all keep up" not in listed
