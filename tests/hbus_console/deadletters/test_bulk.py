"""Redriving and discarding many at once, by selection and by filter."""

from __future__ import annotations

import html
import re
from typing import Any

import msgspec
import pytest
from django.test import Client

from engine.bus.conformance.running import FactRecorder
from engine.core.clock import SystemClock
from engine.core.errors import BadInput
from hbus_console.access.permissions import Actor, Forbidden
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.models import User
from hbus_console.deadletters import services as letters
from hbus_console.deadletters.models import DeadLetter
from hbus_console.evidence.freshness import STALE_MS
from hbus_console.operations import services
from hbus_console.operations.models import Operation, OperationItem
from hbus_console.operations.runner import OperationRunner
from hbus_console.outbox.models import OutboxMessage
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics import catalog
from hbus_console.topics.models import Topic
from hbus_console.ui.formats import clock
from tests.hbus_console.deadletters.conftest import MakeLetter
from tests.hbus_console.kept import kept
from tests.unhurried import UnhurriedClock

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


@pytest.fixture
def olga(db: None) -> Actor:
    user = User.objects.create(username="olga")
    user.grants.create(role="operator", scope="*")
    return actor_of(user)


def run(actor: Actor, kind: str, spec: dict[str, Any]) -> Operation:
    operation = services.start(actor, kind, spec, reason="room map deployed").operation
    OperationRunner(UnhurriedClock()).tick()
    operation.refresh_from_db()
    return operation


def test_a_group_is_redriven_once_each(olga: Actor, make_letter: MakeLetter, facts: FactRecorder) -> None:
    mine = [make_letter() for _ in range(5)]
    other = make_letter(fingerprint="another")

    operation = run(olga, "redrive", {"fingerprint": mine[0].fingerprint})

    assert (operation.state, operation.total, operation.done) == ("settling", 5, 5)
    for letter in mine:
        letter.refresh_from_db()
        assert (letter.state, letter.decided_by) == ("redriven", "olga")
        assert letter.reason == f"operation {operation.pk}: room map deployed"
    other.refresh_from_db()
    assert other.state == "dead"
    copies = {item.name: item.made.name for item in OperationItem.objects.all() if item.made}
    assert copies == {letter.message_id: letter.redriven_as for letter in mine}
    assert set(OutboxMessage.objects.values_list("message_id", flat=True)) == set(copies.values())


def test_a_selection_says_what_had_been_decided_before(
    olga: Actor, make_letter: MakeLetter, facts: FactRecorder
) -> None:
    one, two, three = make_letter(), make_letter(), make_letter()
    started = services.start(olga, "redrive", {"letters": [one.pk, two.pk]}, reason="why").operation
    letters.discard(olga, two.pk, "obsolete")
    OperationRunner(UnhurriedClock()).tick()
    started.refresh_from_db()
    assert (started.done, started.skipped, started.failed) == (1, 1, 0)
    assert OperationItem.objects.get(name=two.message_id).detail == "olga had discarded it before"
    three.refresh_from_db()
    assert three.state == "dead"


def test_discarding_in_bulk_publishes_nothing(olga: Actor, make_letter: MakeLetter, facts: FactRecorder) -> None:
    make_letter(), make_letter()
    assert run(olga, "discard", {"topic": "booking.changed"}).done == 2
    assert set(DeadLetter.objects.values_list("state", flat=True)) == {"discarded"}
    assert not OutboxMessage.objects.exists()


def test_what_cannot_be_redriven_is_left_and_said(olga: Actor, make_letter: MakeLetter, facts: FactRecorder) -> None:
    make_letter(subscription="gone"), make_letter()
    plan = services.dry_run(olga, "redrive", {"topic": "booking.changed"})
    assert plan.warnings == ["1 cannot be redriven: gone is no longer subscribed to booking.changed."]

    operation = run(olga, "redrive", {"topic": "booking.changed"})
    assert (operation.done, operation.failed) == (1, 1)
    assert DeadLetter.objects.get(subscription="gone").state == "dead"


def test_a_paused_subscription_is_said_before(olga: Actor, make_letter: MakeLetter) -> None:
    make_letter()
    Subscription.objects.update(paused=True)
    plan = services.dry_run(olga, "redrive", {"topic": "booking.changed"})
    assert plan.warnings == ["1 of booking.changed will wait because partner-sync is paused."]


def test_what_dies_after_the_start_was_in_no_dry_run(olga: Actor, make_letter: MakeLetter, facts: FactRecorder) -> None:
    make_letter()
    operation = services.start(olga, "redrive", {"topic": "booking.changed"}, reason="why").operation
    late = make_letter()
    OperationRunner(UnhurriedClock()).tick()
    operation.refresh_from_db()
    late.refresh_from_db()
    assert (operation.done, late.state) == (1, "dead")


def test_a_filter_does_not_reach_beyond_the_scope(make_letter: MakeLetter, facts: FactRecorder) -> None:
    Topic.objects.create(name="payroll.paid", team=Topic.objects.get().team)
    Subscription.objects.create(topic=Topic.objects.get(name="payroll.paid"), group="partner-sync")
    make_letter(), make_letter(topic="payroll.paid")
    user = User.objects.create(username="narrow")
    user.grants.create(role="operator", scope="booking.*")
    narrow = actor_of(user)

    assert services.dry_run(narrow, "redrive", {"subscription": "partner-sync"}).total == 1
    assert run(narrow, "redrive", {"subscription": "partner-sync"}).done == 1
    assert DeadLetter.objects.get(topic="payroll.paid").state == "dead"
    with pytest.raises(Forbidden):
        services.dry_run(narrow, "redrive", {"topic": "payroll.paid"})
    with pytest.raises(BadInput, match="nothing to do"):
        services.start(narrow, "redrive", {"letters": [DeadLetter.objects.get(state="dead").pk]}, reason="why")


def test_the_same_words_of_another_scope_are_work_of_their_own(
    olga: Actor, make_letter: MakeLetter, facts: FactRecorder
) -> None:
    make_letter(), make_letter(topic="payroll.paid")
    Topic.objects.create(name="payroll.paid", team=Topic.objects.get().team)
    spec = {"subscription": "partner-sync"}
    people = []
    for name, scope in (("narrow", "booking.*"), ("beside", "booking.*"), ("other", "payroll.*")):
        user = User.objects.create(username=name)
        user.grants.create(role="operator", scope=scope)
        people.append(actor_of(user))
    narrow, beside, other = people

    first = services.start(narrow, "redrive", spec, reason="why")
    second = services.start(other, "redrive", spec, reason="why")

    assert (first.new, second.new, first.operation.pk != second.operation.pk) == (True, True, True)
    assert services.start(narrow, "redrive", spec, reason="why").operation == first.operation
    with pytest.raises(BadInput, match="you may not see have all of these"):
        services.start(beside, "redrive", spec, reason="why")
    assert services.dry_run(beside, "redrive", spec).total == 0
    # Whoever sees both is told of both, and of nothing that is left.
    said = services.start(olga, "redrive", spec, reason="why").sentence
    assert said == (
        f"Nothing was started: 1 of these is being redriven by operation {first.operation.pk} (waiting to begin) and "
        f"1 of these is being redriven by operation {second.operation.pk} (waiting to begin)."
    )


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({}, "spec"),
        ({"colour": "red"}, "spec.colour"),
        ({"letters": []}, "spec.letters"),
        ({"letters": ["1"]}, "spec.letters"),
        ({"letters": [True]}, "spec.letters"),
        ({"letters": [-1]}, "spec.letters"),
        ({"letters": [10**30]}, "spec.letters"),
        ({"letters": list(range(1_001))}, "spec.letters"),
        ({"topic": 5}, "spec.topic"),
    ],
)
def test_bad_choices_are_refused(olga: Actor, make_letter: MakeLetter, spec: dict[str, Any], field: str) -> None:
    make_letter()
    with pytest.raises(BadInput) as refused:
        services.start(olga, "redrive", spec, reason="why")
    assert refused.value.field == field


def test_while_no_keeper_takes_letters_over_the_dry_run_of_a_filter_says_so(
    olga: Actor, make_letter: MakeLetter
) -> None:
    letter, now_ms = make_letter(), SystemClock().now_ms()

    def told(spec: dict[str, Any]) -> str:
        return services.dry_run(olga, "redrive", spec).scanned

    topic, chosen = {"topic": "booking.changed"}, {"letters": [letter.pk]}
    assert told(topic) == "1 letter waits and matches; more are not known yet"
    kept(now_ms)
    assert told(topic) == told(chosen) == "1 letter waits and matches"
    kept(now_ms - STALE_MS)
    assert told(topic) == f"1 letter waits and matches; more are not known since {clock(now_ms - STALE_MS)[:8]}"
    # Who ticked them means these.
    assert told(chosen) == "1 letter waits and matches"


@pytest.mark.parametrize("kind", ["redrive", "discard"])
def test_what_dies_between_the_dry_run_and_the_start_is_left(
    olga: Actor, make_letter: MakeLetter, facts: FactRecorder, kind: str
) -> None:
    shown = make_letter()
    plan = services.dry_run(olga, kind, {"topic": "booking.changed"})
    assert plan.scanned.startswith("1 letter waits and matches")
    late = make_letter()

    again = services.dry_run(olga, kind, {"topic": "booking.changed"}, horizon=plan.horizon)
    started = services.start(olga, kind, {"topic": "booking.changed"}, reason="why", horizon=plan.horizon)
    OperationRunner(UnhurriedClock()).tick()

    started.operation.refresh_from_db()
    assert (plan.total, again.total, started.operation.total, started.operation.done) == (1, 1, 1, 1)
    shown.refresh_from_db()
    late.refresh_from_db()
    assert shown.state != "dead"
    assert late.state == "dead"


def test_a_dry_run_that_found_nothing_starts_nothing_later(olga: Actor, make_letter: MakeLetter) -> None:
    plan = services.dry_run(olga, "discard", {"topic": "booking.changed"})
    make_letter()
    with pytest.raises(BadInput, match="nothing to do"):
        services.start(olga, "discard", {"topic": "booking.changed"}, reason="why", horizon=plan.horizon)


def test_the_button_of_a_stale_page_does_what_the_page_shows(
    olga: Actor, make_letter: MakeLetter, facts: FactRecorder
) -> None:
    browser = Client()
    browser.force_login(User.objects.get(username="olga"))
    address = "/operations/plan/discard/?topic=booking.changed"
    shown = make_letter()
    form = _hidden(browser.get(address).content.decode())
    late = make_letter()

    refused = browser.post(address, {**form, "reason": ""}).content.decode()
    assert "Discard 1</button>" in refused, "asked for the reason, it shows what it showed before"
    assert _hidden(refused) == form
    browser.post(address, {**form, "reason": "obsolete"})
    OperationRunner(UnhurriedClock()).tick()
    shown.refresh_from_db()
    late.refresh_from_db()
    assert (shown.state, late.state) == ("discarded", "dead")

    answer = browser.post(address, {**form, "reason": "once more"}, follow=True).content.decode()
    assert "nothing is left to do" in answer
    assert Operation.objects.count() == 1


def test_a_horizon_that_no_dry_run_gave_is_refused(olga: Actor, make_letter: MakeLetter) -> None:
    make_letter()
    for horizon in (-1, 10**30):
        with pytest.raises(BadInput) as refused:
            services.start(olga, "redrive", {"topic": "booking.changed"}, reason="why", horizon=horizon)
        assert refused.value.field == "horizon"


def _hidden(page: str) -> dict[str, str]:
    found = re.findall(r'<input type="hidden" name="(spec|horizon)" value="([^"]*)">', page)
    assert {name for name, _ in found} == {"spec", "horizon"}
    return {name: html.unescape(value) for name, value in found}


def test_with_none_chosen_the_page_says_what_to_do_in_its_own_words(olga: Actor, make_letter: MakeLetter) -> None:
    make_letter()
    browser = Client()
    browser.force_login(User.objects.get(username="olga"))
    listed = browser.get("/dead-letters/").content.decode()
    assert 'name="by" value="letter"' in listed
    page = browser.get("/operations/plan/redrive/?by=letter").content.decode()
    assert "No letter is chosen. Tick the letters that you mean" in page
    assert 'name="spec"' not in page


def test_a_cause_is_named_by_its_words_in_titles(olga: Actor, make_letter: MakeLetter) -> None:
    words = "UnknownRoomCode: room code … is not in the catalogue of " + "a partner " * 30
    letter = make_letter(cause=words.strip())
    spec = {"topic": "booking.changed", "fingerprint": letter.fingerprint}
    browser = Client()
    browser.force_login(User.objects.get(pk=olga.user_id))

    plan = browser.get(f"/operations/plan/redrive/?topic=booking.changed&fingerprint={letter.fingerprint}")
    operation = services.start(olga, "redrive", spec, reason="why").operation

    whole = f"Redrive dead letters on booking.changed with {words.strip()}"
    assert len(operation.title) == 300
    begin = "Redrive dead letters on booking.changed with UnknownRoomCode: room code …"
    assert operation.title.startswith(begin)
    assert (
        f'<span class="few-lines" title="{html.escape(whole)}">Redrive dead letters on booking.changed with Unknown'
        in plan.content.decode()
    )
    for path in ("/operations/", f"/operations/{operation.pk}/"):
        page = browser.get(path).content.decode()
        assert (
            f'<span class="few-lines" title="{html.escape(operation.title)}">Redrive dead letters on booking.changed'
            in page
        )
    # What a letter itself says may be masked: it is not kept in a title.
    assert "DBL-SEA" not in operation.title


def test_a_cause_keeps_its_words_once_others_have_decided_all_of_it(olga: Actor, make_letter: MakeLetter) -> None:
    letter = make_letter(cause="UnknownRoomCode: room code … is not in the catalogue")
    browser = Client()
    browser.force_login(User.objects.get(pk=olga.user_id))
    DeadLetter.objects.update(state=DeadLetter.State.DISCARDED)
    plan = browser.get(f"/operations/plan/redrive/?topic=booking.changed&fingerprint={letter.fingerprint}")
    said = html.unescape(plan.content.decode())
    assert "Redrive dead letters on booking.changed with UnknownRoomCode: room code …" in said
    assert "no cause recorded" not in said


def test_a_dry_run_tells_the_figures_that_the_name_of_a_cause_leaves_out(olga: Actor, make_letter: MakeLetter) -> None:
    cause = "WebhookFailed: http://#/hook answered # Bad Request"
    said = "WebhookFailed: http://127.0.0.1:9/hook answered {} Bad Request"
    letters = [make_letter(cause=cause, error=said.format(status)) for status in (400, 422, 400)]
    spec = {"topic": "booking.changed", "fingerprint": letters[0].fingerprint}
    for kind in ("redrive", "discard"):
        plan = services.dry_run(olga, kind, spec)
        assert [each.detail for each in plan.samples] == [said.format(status) for status in (400, 422, 400)]
        differs = {each.note for each in plan.findings if each.label == "differs from letter to letter"}
        assert differs == {"hook answered: “400” × 2, “422” × 1"}


def test_a_dry_run_tells_nothing_that_the_topic_masks(olga: Actor, make_letter: MakeLetter) -> None:
    letter = make_letter()
    assert services.dry_run(olga, "redrive", {"letters": [letter.pk]}).samples[0].detail == "UnknownRoomCode: 'DBL-SEA'"
    Topic.objects.update(masked_fields=["room"])
    plan = services.dry_run(olga, "redrive", {"topic": "booking.changed", "fingerprint": letter.fingerprint})
    assert plan.samples[0].detail == "UnknownRoomCode: …"
    assert "DBL-SEA" not in str(plan)


def test_one_that_its_topic_would_not_take_fails_at_once_and_stays_to_be_decided(
    olga: Actor, make_letter: MakeLetter
) -> None:
    small = make_letter()
    large = make_letter(fingerprint=small.fingerprint, message={"data": msgspec.Raw(b'"' + b"x" * 3_000 + b'"')})
    Topic.objects.update(max_bytes=2_500)
    catalog.changed()

    spec = {"fingerprint": small.fingerprint}
    (told,) = (each for each in services.dry_run(olga, "redrive", spec).findings if each.label.startswith("refused"))
    assert (told.value, "2,500 bytes that" in told.note, told.tone) == (1, True, "warn")
    assert not any(each.label.startswith("refused") for each in services.dry_run(olga, "discard", spec).findings)

    operation = run(olga, "redrive", spec)

    assert (operation.total, operation.done, operation.failed) == (2, 1, 1)
    item = OperationItem.objects.get(name=large.message_id)
    told = "The envelope is too large: topic 'booking.changed' takes 2,500 bytes."
    assert (item.result, item.detail) == ("failed", told)
    large.refresh_from_db()
    assert (large.state, large.redriven_as) == ("dead", "")
    assert OutboxMessage.objects.count() == 1


def test_a_letter_that_is_refused_after_it_was_decided_stays_dead(
    olga: Actor, make_letter: MakeLetter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topic may lose its owner between the two looks at it: the letter was redriven then, and its copy nowhere."""
    first, second = make_letter(), make_letter()
    sending = letters.outbox.send_on_commit

    def refuse_once(topic: str, copy: Any) -> None:
        monkeypatch.setattr(letters.outbox, "send_on_commit", sending)
        raise BadInput("Nobody owns it any more.")

    monkeypatch.setattr(letters.outbox, "send_on_commit", refuse_once)
    operation = run(olga, "redrive", {"fingerprint": first.fingerprint})

    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.state, first.redriven_as, second.state) == ("dead", "", "redriven")
    assert (operation.done, operation.failed) == (1, 1)
    assert OutboxMessage.objects.get().message_id == second.redriven_as
