from __future__ import annotations

import pytest

from engine.core.clock import ManualClock
from engine.core.errors import BadInput, Conflict, NotThere
from hbus_console.access.permissions import Actor, Forbidden
from hbus_console.audit.models import AuditEntry
from hbus_console.operations import kinds, services
from hbus_console.operations.models import Operation
from tests.hbus_console.operations.conftest import MakeUser, Words

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

SPEC = {"words": ["a", "b"]}


def test_a_start_is_queued_and_audited(operator: Actor, words: Words) -> None:
    started = services.start(operator, "words", SPEC, reason="to be heard", rate_per_s=5)

    made = Operation.objects.get()
    assert started.new
    assert (made.state, made.total, made.rate_per_s, made.title) == ("queued", 2, 5, "Say 2 words")
    entry = AuditEntry.objects.get(seq=made.audit_seq)
    assert (entry.action, entry.target, entry.namespace, entry.reason) == (
        "operation.start",
        str(made.pk),
        "booking.changed",
        "to be heard",
    )
    assert entry.after["spec"] == SPEC


def test_the_same_work_is_not_started_twice_while_it_is_under_way(operator: Actor, words: Words) -> None:
    first = services.start(operator, "words", SPEC, reason="one").operation
    again = services.start(operator, "words", SPEC, reason="two")

    assert not again.new
    assert again.operation.pk == first.pk
    assert "does this already" in again.sentence
    assert AuditEntry.objects.filter(action="operation.start").count() == 1

    services.cancel(operator, first.pk, "enough")
    assert services.start(operator, "words", SPEC, reason="three").new


def test_a_dry_run_changes_nothing(operator: Actor, words: Words) -> None:
    plan = services.dry_run(operator, "words", SPEC)
    assert plan.total == 2
    assert [sample.subject.name for sample in plan.samples] == ["a", "b"]
    assert not Operation.objects.exists()
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"kind_name": "dance"}, "kind"),
        ({"spec": {}}, "spec.words"),
        ({"spec": {"words": []}}, "spec"),
        ({"spec": {"words": ["never"]}}, "spec"),
        ({"reason": " "}, "reason"),
        ({"rate_per_s": -1}, "rate_per_s"),
        ({"rate_per_s": 100_001}, "rate_per_s"),
    ],
)
def test_bad_starts_are_refused_and_leave_nothing(
    operator: Actor, words: Words, given: dict[str, object], field: str
) -> None:
    with pytest.raises(BadInput) as refused:
        services.start(operator, **{"kind_name": "words", "spec": SPEC, "reason": "why", **given})  # type: ignore[arg-type]
    assert refused.value.field == field
    assert not Operation.objects.exists()


def test_it_takes_the_kind_s_permission_on_its_topic(make_user: MakeUser, words: Words) -> None:
    for role, scope in (("viewer", "*"), ("operator", "billing.*")):
        with pytest.raises(Forbidden):
            services.start(make_user(role, scope, f"{role}-{scope[0]}"), "words", SPEC, reason="why")
    assert services.start(make_user("operator", "booking.*", "inside"), "words", SPEC, reason="why").new


def test_pause_resume_and_cancel_are_audited_and_answer_definitely(operator: Actor, words: Words) -> None:
    pk = services.start(operator, "words", SPEC, reason="why").operation.pk

    assert services.pause(operator, pk, "lunch").state == "paused"
    with pytest.raises(Conflict, match="is paused"):
        services.pause(operator, pk, "again")
    assert services.resume(operator, pk, "back").state == "queued"
    ended = services.cancel(operator, pk, "enough")
    assert (ended.state, ended.ended_at is not None) == ("cancelled", True)
    for act in (services.pause, services.resume, services.cancel):
        with pytest.raises(Conflict, match="is cancelled"):
            act(operator, pk, "too late")

    acts = AuditEntry.objects.filter(target=str(pk)).order_by("seq").values_list("action", "reason")
    assert list(acts) == [
        ("operation.start", "why"),
        ("operation.pause", "lunch"),
        ("operation.resume", "back"),
        ("operation.cancel", "enough"),
    ]


def test_others_see_what_lies_in_their_scope_and_steer_with_the_role(make_user: MakeUser, words: Words) -> None:
    from hbus_console.teams.models import Team
    from hbus_console.topics.models import Topic

    Topic.objects.create(name="booking.changed", team=Team.objects.create(name="T", contact="t"))
    pk = services.start(make_user(name="first"), "words", SPEC, reason="why").operation.pk
    viewer, outside = make_user("viewer", "booking.*", "viewer"), make_user("admin", "billing.*", "outside")

    assert services.operation(viewer, pk).pk == pk
    assert services.operation(make_user("viewer", "*", "everything"), pk).pk == pk
    assert not services.may_steer(viewer, services.operation(viewer, pk))
    with pytest.raises(Forbidden):
        services.cancel(viewer, pk, "no")
    assert not services.operations(outside).exists()
    with pytest.raises(NotThere):
        services.cancel(outside, pk, "no")
    assert services.pause(make_user("operator", "booking.*", "peer"), pk, "yes").state == "paused"


def test_what_is_of_a_kind_that_is_gone_can_be_held_and_ended_but_not_continued(
    make_user: MakeUser, words: Words, monkeypatch: pytest.MonkeyPatch
) -> None:
    pk = services.start(make_user(name="first"), "words", SPEC, reason="why").operation.pk
    monkeypatch.delitem(kinds._kinds(), "words")
    operator, governor = make_user("operator", "*", "peer"), make_user("governor", "booking.*", "gov")
    assert not services.may_steer(operator, services.operation(operator, pk))
    assert services.may_steer(governor, services.operation(governor, pk))
    assert services.pause(governor, pk, "lunch").state == "paused"
    with pytest.raises(Conflict) as refused:
        services.resume(governor, pk, "back")
    assert (refused.value.field, "HBUS_APPS" in refused.value.remedy) == ("kind", True)
    with pytest.raises(Forbidden):
        services.cancel(operator, pk, "enough")
    assert services.cancel(governor, pk, "enough").state == "cancelled"


def test_a_second_click_that_comes_when_all_is_done_is_answered_by_the_first(operator: Actor, words: Words) -> None:
    clock = ManualClock()
    first = services.start(operator, "words", SPEC, reason="one").operation
    services.cancel(operator, first.pk, "said already", clock=clock)
    words.left = 0

    again = services.start(operator, "words", SPEC, reason="two", clock=clock)
    assert (again.new, again.operation.pk) == (False, first.pk)
    assert "has done this, and nothing is left to do" in again.sentence

    clock.advance(services.JUST_NOW.total_seconds() + 1)
    with pytest.raises(BadInput, match="nothing to do"):
        services.start(operator, "words", SPEC, reason="three", clock=clock)
