"""Letters that an unfinished operation has are left to it, by the dry run and by what is started beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from django.test import Client

from engine.bus.conformance.running import FactRecorder
from engine.core.clock import SystemClock
from engine.core.errors import Conflict
from hbus_console.access.permissions import Actor
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.models import User
from hbus_console.audit.models import AuditEntry
from hbus_console.deadletters import taken
from hbus_console.deadletters.bulk import Bulk
from hbus_console.operations import services
from hbus_console.operations.kinds import Plan
from hbus_console.operations.models import Operation
from hbus_console.operations.runner import OperationRunner
from tests.hbus_console.deadletters.conftest import MakeLetter
from tests.hbus_console.kept import kept
from tests.unhurried import UnhurriedClock

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
SPEC = {"topic": "booking.changed"}


@pytest.fixture
def olga(db: None) -> Actor:
    user = User.objects.create(username="olga")
    user.grants.create(role="operator", scope="*")
    return actor_of(user)


@pytest.fixture
def browser(olga: Actor) -> Client:
    client = Client()
    client.force_login(User.objects.get(pk=olga.user_id))
    return client


@pytest.fixture(autouse=True)
def keeper(db: None) -> None:
    """One goes on: what it takes over is all there is."""
    kept(SystemClock().now_ms())


def held(actor: Actor, kind: str = "redrive", spec: dict[str, Any] = SPEC) -> Operation:
    operation = services.start(actor, kind, spec, reason="map").operation
    return services.pause(actor, operation.pk, "lunch")


def run() -> None:
    OperationRunner(UnhurriedClock()).tick()


def test_the_dry_run_leaves_out_and_links_what_a_held_operation_has(
    olga: Actor, browser: Client, make_letter: MakeLetter
) -> None:
    make_letter(), make_letter()
    first = held(olga)
    everything = services.dry_run(olga, "redrive", SPEC)
    assert (everything.total, everything.scanned) == (
        0,
        "2 letters wait and match, all of them left to operations under way",
    )
    newer = make_letter()

    for kind in ("redrive", "discard"):
        plan = services.dry_run(olga, kind, SPEC)
        assert (plan.total, [each.subject for each in plan.samples]) == (1, [newer.subject])
        assert [str(each) for each in plan.taken or ()] == [
            f"2 of these are being redriven by operation {first.pk} (held)"
        ]
        assert plan.scanned == "3 letters wait and match, 2 of them left to operations under way"
        page = browser.get(f"/operations/plan/{kind}/?topic=booking.changed").content.decode()
        assert f"2 of these are being redriven by operation {first.pk} (held)." in page
        assert f'href="/operations/{first.pk}/"' in page
    body = {"kind": "redrive", "spec": SPEC}
    told = browser.post("/api/v1/operations/plan", body, content_type="application/json").json()
    assert (told["total"], told["taken"][0]["operation"], told["taken"][0]["count"]) == (1, first.pk, 2)


def test_the_rest_is_started_beside_it_and_keeps_its_hands_off(
    olga: Actor, make_letter: MakeLetter, facts: FactRecorder
) -> None:
    old = [make_letter(), make_letter()]
    first = held(olga)
    new = [make_letter(), make_letter()]

    second = services.start(olga, "redrive", SPEC, reason="why")

    assert (second.new, second.operation.total) == (True, 2)
    assert second.sentence == (
        f"Operation {second.operation.pk} was started. 2 of these are being redriven by operation {first.pk} (held)."
    )
    # What the dry run had left out stays left out, whatever becomes of the other.
    services.cancel(olga, first.pk, "enough")
    run()
    for letter in (*old, *new):
        letter.refresh_from_db()
    assert [letter.state for letter in (*old, *new)] == ["dead", "dead", "redriven", "redriven"]
    assert services.dry_run(olga, "redrive", SPEC).total == 2


def test_it_is_refused_only_where_others_have_every_letter(
    olga: Actor, make_letter: MakeLetter, facts: FactRecorder
) -> None:
    one = make_letter()
    first = held(olga)
    again = services.start(olga, "redrive", {"letters": [one.pk]}, reason="why")
    assert (again.new, again.operation) == (False, first)
    assert again.sentence == f"Nothing was started: operation {first.pk} by olga does this already."
    # To discard is other work than to redrive.
    said = services.start(olga, "discard", SPEC, reason="why").sentence
    assert said == f"Nothing was started: 1 of these is being redriven by operation {first.pk} (held)."

    two = make_letter()
    second = services.start(olga, "redrive", {"letters": [one.pk, two.pk]}, reason="why").operation
    assert (second.total, second.title) == (1, "Redrive 1 chosen dead letter")
    both = services.start(olga, "redrive", SPEC, reason="why")
    assert not both.new
    assert (
        f"operation {first.pk} (held) and 1 of these is being redriven by operation {second.pk} (wai" in both.sentence
    )
    run()
    one.refresh_from_db(), two.refresh_from_db()
    assert (one.state, two.state) == ("dead", "redriven")


def test_the_same_words_may_go_on_for_what_came_since(
    olga: Actor, make_letter: MakeLetter, facts: FactRecorder
) -> None:
    made = []
    for _ in range(3):
        make_letter()
        made.append(held(olga).pk)
    assert len(set(made)) == 3
    assert [each.total for each in Operation.objects.order_by("pk")] == [1, 1, 1]
    # The middle one ends: its letter is nobody's, though the last had left it out.
    services.cancel(olga, made[1], "enough")
    plan = services.dry_run(olga, "redrive", SPEC)
    assert (plan.total, [each.operation.pk for each in plan.taken or ()]) == (1, [made[0], made[2]])


def test_what_an_operation_has_passed_or_can_never_reach_is_nobodys(
    olga: Actor, make_letter: MakeLetter, facts: FactRecorder
) -> None:
    passed, ahead = make_letter(body=b"\xff"), make_letter()
    services.start(olga, "redrive", SPEC, reason="why", first=1)
    run()
    passed.refresh_from_db()
    assert (passed.state, Operation.objects.get().state) == ("dead", "paused")
    assert [each.subject for each in services.dry_run(olga, "discard", SPEC).samples] == [passed.subject]
    # Its next step would be refused: it will never come to the other.
    User.objects.filter(username="olga").update(is_active=False)
    root = User.objects.create(username="root")
    root.grants.create(role="operator", scope="*")
    assert services.dry_run(actor_of(root), "discard", SPEC).total == 2
    assert ahead.pk


def test_choices_do_not_stand_inside_each_other_without_end(
    olga: Actor, make_letter: MakeLetter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taken, "_MOST", 2)
    for _ in range(2):
        make_letter()
        held(olga)
    make_letter()
    with pytest.raises(Conflict, match="Too many unfinished operations"):
        services.start(olga, "redrive", SPEC, reason="why")


def test_the_number_of_an_operation_is_told_only_to_who_may_see_it(
    olga: Actor, browser: Client, make_letter: MakeLetter
) -> None:
    make_letter(), make_letter()
    first = held(olga, spec={"cause": "UnknownRoomCode"})
    make_letter()
    ben = User.objects.create(username="ben")
    ben.grants.create(role="operator", scope="booking.*")
    second = services.start(actor_of(ben), "redrive", SPEC, reason="why").operation
    assert second.spec["left_to"][0]["operation"] == first.pk

    his = Client()
    his.force_login(ben)
    one, listed = (his.get(f"/api/v1/operations{path}").json() for path in (f"/{second.pk}", ""))
    assert one["spec"]["left_to"] == listed["results"][0]["spec"]["left_to"] == [{"letters": 2}]
    assert json.loads(his.get(f"/operations/{second.pk}/").context["spec"])["left_to"] == [{"letters": 2}]
    entry = AuditEntry.objects.get(seq=second.audit_seq)
    assert (entry.after or {})["spec"]["left_to"] == [{"letters": 2}]
    assert browser.get(f"/api/v1/operations/{second.pk}").json()["spec"] == second.spec


def test_the_panel_of_one_letter_names_the_operation_that_has_it(
    olga: Actor, browser: Client, make_letter: MakeLetter
) -> None:
    letter = make_letter()
    path = f"/dead-letters/?letter={letter.pk}"
    # What becomes of its copy, and what that waits for, is told by the subscription.
    assert "subscription:booking.changed/partner-sync" in browser.get(path).content.decode()
    assert "subscription:booking" not in browser.get("/dead-letters/").content.decode()
    assert "being redriven" not in browser.get(path).content.decode()
    first = held(olga)
    page = browser.get(path).content.decode()
    assert f"This letter is being redriven by operation {first.pk} (held)." in page
    assert f'href="/operations/{first.pk}/"' in page


@pytest.mark.parametrize("kind", ["redrive", "discard"])
def test_of_two_starts_at_once_the_second_is_planned_anew(
    olga: Actor, make_letter: MakeLetter, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Both started, each with the total of both: the second had been planned before the first was there."""
    make_letter(), make_letter()
    planned, twins = Bulk.plan, list[Operation]()

    def plan(self: Bulk, actor: Actor, spec: Mapping[str, Any]) -> Plan:
        found = planned(self, actor, spec)
        if not twins:
            twins.append(Operation())
            twins[0] = services.start(olga, kind, SPEC, reason="map").operation
        return found

    monkeypatch.setattr(Bulk, "plan", plan)
    second = services.start(olga, "redrive", SPEC, reason="map")
    assert (second.new, second.operation) == (False, twins[0])
    assert Operation.objects.count() == 1
