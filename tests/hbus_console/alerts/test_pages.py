"""The pages: what an operator reads and does there."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from hbus_console.access.acts import Role
from hbus_console.alerts import services, standing
from hbus_console.alerts.kinds import kinds
from hbus_console.alerts.models import Alert, Channel, Evaluation, Notification, Reading, Rule, Silence
from hbus_console.messages.models import LagSample
from hbus_console.topics.models import Topic
from hbus_console.ui import live
from tests.hbus_console.alerts.conftest import rule, webhook
from tests.hbus_console.kept import kept
from tests.hbus_console.ui.conftest import subscription, topic

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
SignIn = Callable[..., Client]


def now() -> int:
    return time.time_ns() // 1_000_000


def raised(made: Rule, about: str = "booking.created", group: str = "billing", **fields: object) -> Alert:
    values: dict[str, object] = {
        "state": "firing",
        "value": 250,
        "peak": 400,
        "began_ms": now() - 120_000,
        "fired_ms": now() - 60_000,
        "measured_ms": now(),
        **fields,
    }
    return Alert.objects.create(
        rule=made, rule_name=made.name, kind=made.kind, severity=made.severity,
        subject_kind="subscription", namespace=about, subject_name=group, threshold=made.threshold, **values,
    )  # fmt: skip


@pytest.fixture
def evaluated(db: None) -> None:
    Evaluation.objects.create(pk=1, at_ms=now(), watching_ms=1, targets=12)


@pytest.fixture
def made(evaluated: None) -> Rule:
    subscription(topic("booking.created"), "billing")
    return rule(threshold=100, name="Backlog", severity="critical", advice="Look at the consumers.")


def test_the_list_counts_the_targets_for_who_may_see_them_all(made: Rule, signed_in: SignIn) -> None:
    assert "on 12 targets" in signed_in(Role.VIEWER).get("/alerts/").content.decode()
    assert "targets" not in signed_in(Role.VIEWER, "booking.*").get("/alerts/").content.decode()


def test_channels_are_listed_with_as_many_queries_however_many_they_are(
    signed_in: SignIn, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(60):
        channel = webhook(f"c{number}")
        for made_ms, state in ((1, "failed"), (2, "sent")):
            Notification.objects.create(
                channel=channel, rule_name="r", event="fired", body={}, state=state, made_ms=made_ms, next_ms=0
            )
    untried = webhook("untried")
    page = signed_in(Role.VIEWER, "*")
    with django_assert_max_num_queries(30):
        lines = page.get("/alerts/channels/").context["channels"]
    last = {line["row"].pk: line["last"] for line in lines}
    assert last.pop(untried.pk) is None
    assert [each.state for each in last.values()] == ["sent"] * 60


def test_the_channels_count_the_rules_that_use_them_in_the_readers_scope(made: Rule, signed_in: SignIn) -> None:
    made.channels.add(webhook("on-call"))
    rule(name="Payments", topics="payment.*").channels.add(Channel.objects.get())

    def told(scope: str) -> tuple[list[int], bool]:
        page = signed_in(Role.VIEWER, scope).get("/alerts/channels/")
        return [line["used"] for line in page.context["channels"]], "Waiting" in page.content.decode()

    # What waits to be told is of every namespace.
    assert (told("*"), told("booking.*")) == (([2], True), ([1], False))


def test_the_list_shows_what_fires_first_and_the_most_urgent_of_it(made: Rule, signed_in: SignIn) -> None:
    quiet = rule("oldest", 60, name="Slow", severity="info")
    raised(quiet)
    raised(made, group="pending-one", state="pending", fired_ms=0)
    raised(made)
    raised(made, group="over", state="resolved", resolved_ms=now())
    client = signed_in()
    html = client.get("/alerts/").content.decode()
    assert html.index("Backlog") < html.index("Slow") < html.index("pending-one")
    assert "2 firing" in html
    assert "1 pending" in html
    assert ">over<" not in html
    assert "on 12 targets" in html
    over = client.get("/alerts/?state=resolved").content.decode()
    assert "over <span" in over
    assert ">over</span>" in over
    assert ">resolved<" not in html + over


def test_what_is_over_says_when_it_began_and_when_that_was(made: Rule, signed_in: SignIn) -> None:
    hour_ms = 3_600_000
    over = raised(made, state="resolved", began_ms=now() - 5 * hour_ms, resolved_ms=now() - 2 * hour_ms)
    client = signed_in()
    for address in ("/alerts/?state=resolved", f"/alerts/{over.pk}/"):
        html = client.get(address).content.decode()
        assert re.search(r"<time [^>]*data-ago>5 hours ago</time>", html), address
    assert re.search(
        r"over <time [^>]*data-ago>2 hours ago</time>", client.get("/alerts/?state=resolved").content.decode()
    )


@pytest.mark.parametrize("query", ["state=over", "severity=loud"])
def test_a_filter_that_there_is_not_is_refused(evaluated: None, signed_in: SignIn, query: str) -> None:
    answer = signed_in().get(f"/alerts/?{query}")
    assert answer.status_code == 400
    assert query.split("=")[1] in answer.content.decode()


def test_pages_follow_by_key(made: Rule, signed_in: SignIn) -> None:
    for number in range(60):
        raised(made, group=f"reader-{number:02}")
    client = signed_in()
    first = client.get("/alerts/")
    assert first.content.decode().count('<th scope="row"') == 50
    second = client.get(f"/alerts/?cursor={first.context['next_cursor']}").content.decode()
    assert second.count('<th scope="row"') == 10
    assert "reader-59" not in second


def test_nobody_evaluating_is_said_in_red(made: Rule, signed_in: SignIn) -> None:
    Evaluation.objects.update(at_ms=now() - 200_000)
    client = signed_in()
    for path in ("/alerts/", "/alerts/rules/", f"/alerts/rules/{made.pk}/"):
        html = client.get(path).content.decode()
        assert "last evaluated" in html
        assert "nothing new can fire" in html
    assert "The rules are not being evaluated." in client.get("/alerts/").content.decode()
    assert "Alert rules are not being evaluated" in client.get("/").content.decode()


def test_an_alert_tells_its_story_and_draws_it(made: Rule, signed_in: SignIn) -> None:
    alert = raised(made)
    Reading.objects.create(alert=alert, at_ms=alert.began_ms, value=101)
    client = signed_in()
    html = client.get(f"/alerts/{alert.pk}/").content.decode()
    for words in (
        "Backlog: billing on booking.created",
        "250 messages",
        "Look at the consumers.",
        "Fired",
        "after 1 m",
    ):
        assert words in html
    drawn = client.get(f"/alerts/{alert.pk}/chart/").json()
    assert [line["name"] for line in drawn["series"]] == ["unsettled messages", "threshold"]
    assert drawn["series"][0]["values"] == [101, 250]
    assert drawn["series"][1]["values"] == [100, 100]
    # Counted in whole numbers, and so in steps; a duration is not.
    assert drawn["series"][0]["steps"]
    Rule.objects.update(kind="oldest")
    Alert.objects.update(kind="oldest")
    assert not client.get(f"/alerts/{alert.pk}/chart/").json()["series"][0]["steps"]


def test_acknowledging_takes_it_off_the_overview_and_the_count(made: Rule, signed_in: SignIn) -> None:
    alert, client = raised(made), signed_in()
    before = client.get("/").content.decode()
    assert "Backlog: billing on booking.created" in before
    assert 'data-live="alerts">1</span>' in before
    client.post(f"/alerts/{alert.pk}/acknowledge/", {"note": "deploying the fix"})
    after = client.get("/").content.decode()
    assert "Backlog: billing" not in after
    assert 'data-live="alerts" hidden>0</span>' in after
    page = client.get(f"/alerts/{alert.pk}/").content.decode()
    assert "acknowledged" in page
    assert "“deploying the fix”" in page


def test_silencing_asks_why_and_can_be_ended(made: Rule, signed_in: SignIn) -> None:
    alert, client = raised(made), signed_in()
    refused = client.post(f"/alerts/{alert.pk}/silence/", {"minutes": "60", "reason": ""}, follow=True)
    assert "This act needs a reason." in refused.content.decode()
    refused = client.post(f"/alerts/{alert.pk}/silence/", {"minutes": "soon", "reason": "x"}, follow=True)
    assert "number of minutes" in refused.content.decode()
    assert not Silence.objects.exists()
    client.post(f"/alerts/{alert.pk}/silence/", {"minutes": "60", "reason": "release 2.4"})
    listed = client.get("/alerts/").content.decode()
    assert "“release 2.4”" in listed
    assert 'data-live="alerts" hidden>0</span>' in listed
    client.post(f"/alerts/silences/{Silence.objects.get().pk}/end/")
    assert 'data-live="alerts">1</span>' in client.get("/alerts/").content.decode()


def test_the_count_is_live(made: Rule) -> None:
    raised(made)
    assert live.event(live.cells(now(), ("*",)))["texts"]["alerts"] == "1"  # type: ignore[index]
    assert live.event(live.cells(now(), ("payment.*",)))["texts"]["alerts"] == "0"  # type: ignore[index]


def test_a_rule_that_fires_for_many_is_one_line_of_the_overview(made: Rule, signed_in: SignIn) -> None:
    for group in ("a", "b", "c"):
        raised(made, group=group)
    html = signed_in().get("/").content.decode()
    assert "Backlog: 3 targets" in html
    assert "/alerts/?rule=Backlog" in html


def test_the_editor_tries_a_rule_before_it_is_stored(made: Rule, signed_in: SignIn) -> None:
    client = signed_in()
    kept(now())
    sent = {"kind": "dead_letters", "threshold": "1", "topics": "*", "for_s": "0", "clear_s": "0", "severity": "info"}
    html = client.post("/alerts/rules/preview/", sent).content.decode()
    assert "It would not fire now for any of 1" in html
    assert "that could be judged" not in html
    sent["kind"] = "lag"
    unmeasured = client.post("/alerts/rules/preview/", sent).content.decode()
    assert "None of 1 can be judged now" in unmeasured
    assert "or nobody can tell" in unmeasured
    subscription(Topic.objects.get(), "loyalty")
    LagSample.objects.create(
        at_ms=now(), topic="booking.created", subscription="loyalty", waiting=0, in_flight=0, retrying=0, oldest_ms=None
    )
    html = " ".join(client.post("/alerts/rules/preview/", sent).content.decode().split())
    assert "It would not fire now for any of 1 that could be judged" in html
    sent["kind"] = "dead_letters"
    Rule.objects.filter(pk=made.pk).update(of_team=True)
    assert (
        f'<input type="hidden" name="rule" value="{made.pk}">'
        in client.get(f"/alerts/rules/{made.pk}/").content.decode()
    )
    gone = client.post("/alerts/rules/preview/", {**sent, "rule": str(made.pk)}).content.decode()
    assert "the team to whose things it was narrowed is gone" in gone
    assert "<table" not in gone
    wrong = client.post("/alerts/rules/preview/", {**sent, "threshold": "lots"}).content.decode()
    assert "“Fires from” is not a number" in wrong
    assert Rule.objects.count() == 1


def test_a_rule_is_made_changed_and_deleted_in_the_browser(made: Rule, signed_in: SignIn) -> None:
    webhook()
    client = signed_in(Role.EDITOR)
    sent = {
        "kind": "dead_letter_rate", "name": "Dying", "threshold": "20", "window_s": "300", "topics": "booking.*",
        "for_s": "0", "clear_s": "60", "severity": "warning", "enabled": "on", "channels": "on-call",
    }  # fmt: skip
    refused = client.post("/alerts/rules/new/", {**sent, "window_s": "1"})
    assert refused.status_code == 422
    assert "“Counted over” is not a whole number" in refused.content.decode()
    refused = client.post("/alerts/rules/new/", {**sent, "reason": "x" * 301, "severity": "grave"})
    assert "“Severity” cannot be" in refused.content.decode()
    refused = client.post("/alerts/rules/new/", {**sent, "reason": "x" * 301})
    assert "“Why” has 301 characters" in refused.content.decode()
    answer = client.post("/alerts/rules/new/", sent, follow=True)
    assert "Any subscription on booking.* produced 20 dead letters or more within 5 m" in answer.content.decode()
    row = Rule.objects.get(name="Dying")
    assert [it.name for it in row.channels.all()] == ["on-call"]
    client.post(f"/alerts/rules/{row.pk}/", {**sent, "threshold": "30", "revision": "1"})
    row.refresh_from_db()
    assert row.threshold == 30
    stale = client.post(f"/alerts/rules/{row.pk}/", {**sent, "threshold": "40", "revision": "1"})
    assert "somebody else" in stale.content.decode()
    client.post(f"/alerts/rules/{row.pk}/delete/", {"reason": "not needed"})
    assert not Rule.objects.filter(name="Dying").exists()


def test_who_may_only_look_sees_a_rule_but_no_form_to_send(made: Rule, signed_in: SignIn) -> None:
    html = signed_in(Role.VIEWER).get(f"/alerts/rules/{made.pk}/").content.decode()
    assert "Look at the consumers." in html
    assert 'name="threshold"' not in html
    assert "Save" not in html


def test_a_new_webhook_shows_its_secret_once(evaluated: None, signed_in: SignIn) -> None:
    client = signed_in(Role.GOVERNOR)
    shown = client.post(
        "/alerts/channels/", {"name": "on-call", "kind": "webhook", "url": "https://x.example/hush-hook"}
    )
    secret = Channel.objects.get().secret
    assert secret in shown.content.decode()
    assert "no-store" in shown["Cache-Control"]
    row = Channel.objects.get()
    for path in ("/alerts/channels/", f"/alerts/channels/{row.pk}/", "/audit/"):
        assert secret not in client.get(path).content.decode()
    viewer = signed_in(Role.VIEWER).get(f"/alerts/channels/{row.pk}/").content.decode()
    assert "x.example" in viewer
    assert "hush-hook" not in viewer, "a path may be a secret by itself"


def test_a_test_shows_what_the_channel_answered(evaluated: None, signed_in: SignIn) -> None:
    row = webhook(url="http://127.0.0.1:9/")
    answer = signed_in(Role.GOVERNOR).post(f"/alerts/channels/{row.pk}/test/", follow=True).content.decode()
    assert "Test through on-call:" in answer
    assert "not a public address" in answer


def test_a_channel_that_reaches_nobody_is_said_to_who_may_mend_it(made: Rule, signed_in: SignIn) -> None:
    row = webhook()
    common = {"channel": row, "event": "fired", "body": {}, "next_ms": 0}
    Notification.objects.create(**common, state="failed", answer="answered 410 Gone", made_ms=now() - 1000)
    governor = signed_in(Role.GOVERNOR)
    assert "Alerts do not reach on-call" in governor.get("/").content.decode()
    assert "Alerts do not reach" not in signed_in(Role.EDITOR).get("/").content.decode()
    Notification.objects.create(**common, state="sent", made_ms=now())
    assert "Alerts do not reach" not in governor.get("/").content.decode()


def test_no_channel_that_reaches_nobody_is_left_out(signed_in: SignIn) -> None:
    def tell(name: str, state: str, made_ms: int, many: int = 1) -> None:
        channel = Channel.objects.filter(name=name).first() or webhook(name)
        Notification.objects.bulk_create(
            Notification(channel=channel, event="fired", body={}, state=state, made_ms=made_ms, next_ms=0)
            for _ in range(many)
        )

    governor = signed_in(Role.GOVERNOR)

    def told() -> list[str]:
        page = " ".join(governor.get("/").content.decode().split())
        return re.findall(r"Alerts do not reach [a-z0-9 -]+", page)

    tell("on-call", "failed", now() - 60_000)
    # However much another channel was sent since.
    tell("busy", "sent", now() - 1_000, many=250)
    assert told() == ["Alerts do not reach on-call"]
    for number in range(4):
        tell(f"c{number}", "failed", now() - 1_000)
    assert told()[-1] == "Alerts do not reach further channels"
    assert len(told()) == 5


def test_the_rules_of_the_first_start_read_as_sentences(evaluated: None, signed_in: SignIn) -> None:
    services.ensure_defaults()
    html = signed_in().get("/alerts/rules/").content.decode()
    assert "Any subscription on any topic lets a message wait 5 m or more, for 2 m" in html
    assert "Any topic saw 1 failed publish or more within 5 m" in html
    assert "tell nobody but this console" in html


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        ("oldest", 0, "0 s"),
        ("oldest", 0.44, "0.4 s"),
        ("oldest", 291, "4 m 51 s"),
        ("silent_topic", 90, "1 h 30 m"),
        ("lag", 1, "1 message"),
        ("publish_failures", 1, "1 failed publish"),
        ("dead_letters", 2_400, "2,400 dead letters"),
    ],
)
def test_values_are_said_in_their_unit(kind: str, value: float, said: str) -> None:
    assert kinds()[kind].said(value) == said


def test_the_list_goes_on_where_a_page_ended(made: Rule, signed_in: SignIn) -> None:
    for number in range(standing.PAGE + 2):
        raised(made, group=f"g{number}", state="firing" if number % 2 else "pending")
    client = signed_in()
    first = client.get("/alerts/")
    rest = client.get("/alerts/", {"cursor": first.context["next_cursor"]})
    seen = [row.alert.pk for page in (first, rest) for row in page.context["rows"]]
    assert len(seen) == len(set(seen)) == Alert.objects.count()
    assert rest.context["next_cursor"] == ""
    assert client.get("/alerts/?cursor=x").status_code == 400


def test_what_is_not_looked_for_is_not_said_to_be_none(made: Rule, signed_in: SignIn) -> None:
    raised(made)
    client = signed_in()
    assert "Nothing fires" not in client.get("/alerts/?state=pending").content.decode()
    assert "Nothing is pending" in client.get("/alerts/?state=pending").content.decode()
    assert "nothing that you may see fires" in signed_in(Role.VIEWER, "stay.*").get("/alerts/").content.decode()
