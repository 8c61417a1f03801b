"""Evidence that nobody goes on with tells nothing of now: no page, no live text, no alert and no metric says more."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from engine.core.subject import Subject
from hbus_console.access.permissions import Actor
from hbus_console.alerts.round import Case, Round
from hbus_console.alerts.targets import Target
from hbus_console.deadletters import alerts as dead_alerts
from hbus_console.evidence.freshness import DEAD_LETTERS, FACTS, STALE_MS, not_known
from hbus_console.messages.models import FlowSample, LagSample
from hbus_console.nodes.stamps import Node
from hbus_console.subscriptions import standing as subscription_standing
from hbus_console.subscriptions.models import Subscription
from hbus_console.traffic import alerts, concerns
from hbus_console.traffic.flow import BUCKET_MS
from hbus_console.ui import live
from hbus_console.ui.concern import Look
from tests.hbus_console.kept import kept
from tests.hbus_console.ui.conftest import dead_letters, subscription, topic

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

NAME, GROUP = "booking.created", "billing"
AGO_MS = 79_000


@pytest.fixture(autouse=True)
def served(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody runs the subscription, and it has a handler."""
    subscription(topic(NAME), GROUP)
    Subscription.objects.update(handler_name="hotel.handlers:bill")
    status = {"topic": NAME, "group": GROUP, "state": "running", "rate": 0.0, "in_flight": 0}
    node = Node("h:consumer:0", "consumer", "0", "h", 1, 0, 0, False, {"consumers": [status]})
    monkeypatch.setattr(subscription_standing, "living", lambda: ([node], ""))


def sampled(at_ms: int, waiting: int, age_ms: int | None = None) -> None:
    LagSample.objects.create(
        at_ms=at_ms, topic=NAME, subscription=GROUP, waiting=waiting, in_flight=0, retrying=0,
        oldest_ms=None if age_ms is None else at_ms - age_ms,
    )  # fmt: skip


def text_of(page: Client, path: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", page.get(path).content.decode()).split())


def figures_of(page: Client, path: str) -> dict[str, str]:
    return dict(re.findall(r'data-live="([^"]+)"[^>]*>([^<]*)<', page.get(path).content.decode()))


PAGES = ("/", "/topics/", f"/topics/{NAME}/", "/subscriptions/")


def test_while_the_keeper_goes_on_pages_tell_of_now(page: Client, now_ms: int) -> None:
    sampled(now_ms - 1_000, 0)
    kept(now_ms - 1_000)
    shown = {path: text_of(page, path) for path in PAGES}
    assert "Unsettled 0 nothing waits" in shown["/"]
    assert "Its one subscription keeps up, and nothing is published just now." in shown[f"/topics/{NAME}/"]
    assert "all keep up, no dead letter waits" in shown["/subscriptions/"]
    assert not any("not known since" in text for text in shown.values())


@pytest.mark.parametrize(("waiting", "age_ms"), [(0, None), (300, 29_000)])
def test_once_it_has_stopped_no_page_says_what_waits_or_flows(
    waiting: int, age_ms: int | None, page: Client, now_ms: int
) -> None:
    since_ms = now_ms - AGO_MS
    sampled(since_ms, waiting, age_ms)
    kept(since_ms)
    since = not_known(since_ms)
    shown = {path: text_of(page, path) for path in PAGES}
    for text in shown.values():
        assert not re.search("nothing waits|subscription keeps up|all keep up|nothing is published", text)
        assert not re.search("no dead letter waits|none waits", text)
        assert "oldest 2" not in text
        assert "300" not in text
    assert f"Published – /s {since}" in shown["/"]
    assert f"Unsettled – {since}" in shown["/"]
    assert f"Dead letters – {since}" in shown["/"]
    assert f"Whether {GROUP} keeps up is {since}." in shown[f"/topics/{NAME}/"]
    assert f"1 {since}" in shown["/subscriptions/"]


def test_what_is_live_then_is_what_a_reload_shows(page: Client, now_ms: int) -> None:
    since_ms = now_ms - AGO_MS
    sampled(since_ms, 300, 29_000)
    kept(since_ms)
    told = live.event(live.cells(now_ms, ("*",)))
    texts = told["texts"]
    assert isinstance(texts, dict)
    assert "no keeper is sampling" in str(told["stale"])
    shown = {key: text for path in PAGES for key, text in figures_of(page, path).items() if key in texts}
    assert {"published", "unsettled", "dead", f"topic/{NAME}/rate", f"topic/{NAME}/unsettled"} <= shown.keys()
    assert shown == {key: texts[key] for key in shown}


def test_every_page_is_read_again_when_evidence_grows_old(now_ms: int) -> None:
    sampled(now_ms, 0)
    kept(now_ms)

    def marks(at_ms: int) -> dict[str, object]:
        return {name: token for part in live.cells(at_ms, ("*",)) for name, token in part.marks.items()}

    young, old = marks(now_ms), marks(now_ms + STALE_MS)
    for name in (f"topic:{NAME}", f"subscription:{NAME}/{GROUP}", "messages", "letters"):
        assert young.get(name) != old[name], name
    sampled(now_ms + STALE_MS, 0)
    kept(now_ms + STALE_MS, FACTS)
    letters = marks(now_ms + STALE_MS)
    for name in (f"topic:{NAME}", f"subscription:{NAME}/{GROUP}", "letters"):
        assert young.get(name) != letters[name], name


def test_each_kind_of_evidence_has_an_age_of_its_own(page: Client, now_ms: int) -> None:
    since_ms = now_ms - AGO_MS
    sampled(now_ms, 0)
    kept(now_ms, DEAD_LETTERS)
    kept(since_ms, FACTS)
    since = not_known(since_ms)
    assert f"Its one subscription keeps up; what is published is {since}." in text_of(page, f"/topics/{NAME}/")
    overview = text_of(page, "/")
    assert "Unsettled 0 nothing waits" in overview
    assert f"Settled – /s {since}" in overview
    assert "Dead letters 0 none waits" in overview
    assert "no keeper is booking it" in str(live.event(live.cells(now_ms, ("*",)))["stale"])


def test_of_dead_letters_that_nobody_takes_over_there_are_so_many_at_least(page: Client, now_ms: int) -> None:
    dead_letters(5, NAME, GROUP)
    kept(now_ms - AGO_MS)
    since = not_known(now_ms - AGO_MS)
    for path in ("/", f"/topics/{NAME}/"):
        assert f"Dead letters ≥ 5 more are {since}" in text_of(page, path)
    assert "≥ 5" in text_of(page, "/subscriptions/")
    texts = live.event(live.cells(now_ms, ("*",)))["texts"]
    assert isinstance(texts, dict)
    assert texts["dead"] == texts[f"topic/{NAME}/dead"] == "≥ 5"


def test_a_console_that_no_keeper_has_ever_served_knows_nothing(page: Client) -> None:
    overview = text_of(page, "/")
    assert "Published – /s not known yet" in overview
    assert "Dead letters – not known yet" in overview


def test_that_nobody_samples_is_one_line_of_what_needs_a_person(admin_actor: Actor, now_ms: int) -> None:
    since_ms = now_ms - AGO_MS
    sampled(since_ms, 300, 3_600_000)
    found = concerns.concerns(Look(admin_actor, now_ms))
    assert [(each.text, each.note) for each in found] == [
        (f"What waits is {not_known(since_ms)}", "no keeper is sampling")
    ]


def test_what_is_gone_is_not_missed(now_ms: int) -> None:
    sampled(now_ms - STALE_MS, 4)
    kept(now_ms)
    Subscription.objects.all().delete()
    texts = live.event(live.cells(now_ms, ("*",)))["texts"]
    assert isinstance(texts, dict)
    assert (texts["unsettled"], texts["unsettled/note"]) == ("0", "nothing waits")


def test_no_alert_is_judged_by_what_is_old(now_ms: int) -> None:
    sampled(now_ms - AGO_MS, 300, 29_000)
    dead_letters(5, NAME, GROUP)
    bucket_ms = now_ms - now_ms % BUCKET_MS - BUCKET_MS
    FlowSample.objects.create(bucket_ms=bucket_ms, topic=NAME, failed=2)

    def measured(value: float = 0.0) -> list[float | None]:
        of_group = Target(Subject("subscription", NAME, GROUP), None, paused=False, created_ms=0)
        of_topic = Target(Subject("topic", NAME), None, paused=False, created_ms=0)
        now = Round(now_ms, now_ms - 3_600_000)
        return [
            *(kind.measure(Case(now, of_group, 300, True, value, 0)) for kind in alerts.KINDS[:2]),
            *(kind.measure(Case(now, of_topic, 300, True, value, 0)) for kind in alerts.KINDS[2:]),
            dead_alerts.KINDS[0].measure(Case(now, of_group, 300, True, value, 0)),
        ]

    kept(now_ms - AGO_MS)
    # More than there was: that is known of the letters and failures there are.
    assert measured(1.0) == [None, None, 2, None, 5]
    assert measured(9.0) == [None, None, None, None, None]
    kept(now_ms)
    assert measured(9.0)[2:3] == [2]
    assert measured(9.0)[4] == 5
