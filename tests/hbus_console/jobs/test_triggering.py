"""Somebody has a job run: checked, audited, one run for one key, and beside all slots."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.core.errors import BadInput, NotThere, Unavailable
from engine.cron.slots.steps import Offer
from hbus_console.access.acts import Role
from hbus_console.access.permissions import Actor, Forbidden
from hbus_console.audit.models import AuditEntry
from hbus_console.jobs.models import JobRun
from hbus_console.jobs.services import triggering
from hbus_console.jobs.services.draft import JobDraft
from hbus_console.jobs.services.foreseeing import foresee
from hbus_console.jobs.services.jobs import create_job, delete_job, pause_job
from hbus_console.jobs.services.triggering import Trigger, trigger
from tests.hbus_console.jobs.conftest import MakeJob
from tests.hbus_console.topics.conftest import actor

pytestmark = pytest.mark.django_db
NOW = 1_790_000_000.5
SCHEMA = {
    "type": "object",
    "required": ["hotel"],
    "properties": {"hotel": {"type": "string"}, "pin": {"type": "string", "writeOnly": True}},
}


@pytest.fixture(autouse=True)
def offered(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    found: list[int] = []
    monkeypatch.setattr(triggering, "offer", lambda step: found.extend(step.runs))
    return found


@pytest.fixture
def operator() -> Actor:
    return actor(Role.OPERATOR)


def test_a_run_is_made_offered_and_audited_without_its_secrets(
    make_job: MakeJob, operator: Actor, offered: list[int], django_capture_on_commit_callbacks: Callable[..., object]
) -> None:
    make_job("http", "https://1.1.1.1/", parameters={"hotel": "all"}, parameters_schema=SCHEMA)
    asked = Trigger({"hotel": "HB-1", "pin": "4711", "apiKey": "x"}, "the night was long")
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[attr-defined]
        made = trigger(operator, "close-of-day", asked, now_s=lambda: NOW)
    run = made.run
    assert made.new
    assert offered == [run.pk]
    assert (run.kind, run.state, run.slot, run.version, run.asked_by) == (
        "manual",
        "claimed",
        int(NOW),
        1,
        "a-operator",
    )
    assert run.parameters == asked.parameters
    entry = AuditEntry.objects.get(action="job.trigger")
    assert entry.reason == "the night was long"
    assert entry.after == {"job": "close-of-day", "parameters": {"hotel": "HB-1", "pin": "•••", "apiKey": "[redacted]"}}


def test_without_parameters_they_are_the_jobs(make_job: MakeJob, operator: Actor) -> None:
    make_job("http", "https://1.1.1.1/", parameters={"hotel": "all"}, parameters_schema=SCHEMA)
    assert trigger(operator, "close-of-day", Trigger(reason="why")).run.parameters == {"hotel": "all"}


def test_one_key_is_one_run(make_job: MakeJob, operator: Actor, offered: list[int]) -> None:
    make_job("http", "https://1.1.1.1/")
    first = trigger(operator, "close-of-day", Trigger({"a": 1}, "why", "k"))
    again = trigger(operator, "close-of-day", Trigger({"a": 1}, "why", "k"))
    assert (again.new, again.run.pk) == (False, first.run.pk)
    with pytest.raises(BadInput, match="has made run") as refused:
        trigger(operator, "close-of-day", Trigger({"a": 2}, "why", "k"))
    assert refused.value.field == "key"
    assert AuditEntry.objects.filter(action="job.trigger").count() == 1
    # Two of one second, without a key, are two.
    made = {trigger(operator, "close-of-day", Trigger(reason="why"), now_s=lambda: NOW).run.pk for _ in range(2)}
    assert len(made) == 2


def test_the_same_call_again_is_answered_alike_whatever_became_of_the_job(make_job: MakeJob, operator: Actor) -> None:
    row = make_job("http", "https://1.1.1.1/", parameters={"hotel": "all", "pin": "1"}, parameters_schema=SCHEMA)
    asked = Trigger({"hotel": "HB-1", "pin": "4711"}, "why", "k")
    first = trigger(operator, "close-of-day", asked)
    by_default = trigger(operator, "close-of-day", Trigger(reason="why", key="d"))
    row.parameters, row.parameters_schema = {"hotel": "none"}, {"type": "object", "required": ["room"]}
    row.save()
    assert trigger(operator, "close-of-day", asked).run.pk == first.run.pk
    assert trigger(operator, "close-of-day", Trigger(reason="why", key="d")).run.pk == by_default.run.pk
    # As it is shown, with its secret masked.
    seen = Trigger({"hotel": "HB-1", "pin": "•••"}, "why", "k")
    assert trigger(operator, "close-of-day", seen).run.pk == first.run.pk


@pytest.mark.parametrize("parameters", [{"hotel": "HB-1"}, {"hotel": "HB-2"}, None])
def test_a_key_of_somebody_else_is_refused_whatever_is_asked(
    make_job: MakeJob, operator: Actor, parameters: dict[str, str] | None
) -> None:
    make_job("http", "https://1.1.1.1/", parameters={"hotel": "all"}, parameters_schema=SCHEMA)
    trigger(operator, "close-of-day", Trigger({"hotel": "HB-1"}, "why", "k"))
    with pytest.raises(BadInput, match="which somebody else asked for") as refused:
        trigger(actor(Role.ADMIN), "close-of-day", Trigger(parameters, "why", "k"))
    assert refused.value.field == "key"


def test_a_key_of_a_job_that_is_gone_is_refused_to_the_next_of_its_name(make_job: MakeJob, operator: Actor) -> None:
    admin = actor(Role.ADMIN)
    job = JobDraft("close-of-day", "ops", "http", "https://1.1.1.1/close", "* * * * *")
    create_job(admin, job)
    trigger(operator, "close-of-day", Trigger(reason="why", key="k"))
    JobRun.objects.update(state="success")
    delete_job(admin, "close-of-day", "close-of-day", "why")
    create_job(admin, job)
    with pytest.raises(BadInput, match="another job had this name"):
        trigger(operator, "close-of-day", Trigger(reason="why", key="k"))
    assert trigger(operator, "close-of-day", Trigger(reason="why", key="n")).new


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        (Trigger({"hotel": 1}, "why"), "parameters"),
        (Trigger({}, "why"), "parameters"),
        (Trigger({"hotel": "H"}), "reason"),
        (Trigger({"hotel": "H"}, "why", "k" * 129), "key"),
    ],
)
def test_what_does_not_fit_is_refused_at_its_field_and_leaves_nothing(
    make_job: MakeJob, operator: Actor, asked: Trigger, field: str
) -> None:
    make_job("http", "https://1.1.1.1/", parameters={"hotel": "all"}, parameters_schema=SCHEMA)
    with pytest.raises(BadInput) as refused:
        trigger(operator, "close-of-day", asked)
    assert (refused.value.field, bool(refused.value.remedy)) == (field, True)
    assert not JobRun.objects.exists()
    assert not AuditEntry.objects.filter(action="job.trigger").exists()


def test_a_paused_job_may_be_triggered_and_one_that_is_not_there_cannot(make_job: MakeJob, operator: Actor) -> None:
    make_job("http", "https://1.1.1.1/")
    pause_job(operator, "close-of-day", "a release")
    assert trigger(operator, "close-of-day", Trigger(reason="why")).new
    with pytest.raises(NotThere):
        trigger(operator, "open-of-day", Trigger(reason="why"))
    with pytest.raises(Forbidden):
        trigger(actor(Role.VIEWER), "close-of-day", Trigger(reason="why"))


def test_a_queue_that_is_away_does_not_lose_the_run(
    make_job: MakeJob,
    operator: Actor,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: Callable[..., object],
) -> None:
    def away(step: Offer) -> None:
        raise Unavailable("The workers' queue cannot be reached.")

    monkeypatch.setattr(triggering, "offer", away)
    make_job("http", "https://1.1.1.1/")
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[attr-defined]
        made = trigger(operator, "close-of-day", Trigger(reason="why"))
    assert JobRun.objects.get().pk == made.run.pk


@pytest.fixture
def publishes_elsewhere(make_job: MakeJob, topic: object) -> Callable[..., object]:
    """A job of somebody who may publish where the operators of its own namespace may not."""
    return lambda **more: make_job("publish", "booking.created", "frontdesk.open", parameters={"room": "all"}, **more)


@pytest.mark.parametrize("ask", [trigger, foresee])
@pytest.mark.parametrize("given", [{"room": "mine"}, {}, {"room": "all", "more": 1}])
def test_with_parameters_of_their_own_nobody_has_a_job_do_what_they_may_not(
    publishes_elsewhere: Callable[..., object], given: dict[str, object], ask: Callable[..., object]
) -> None:
    publishes_elsewhere()
    local = actor(Role.EDITOR, "frontdesk.*")
    with pytest.raises(Forbidden, match=r"may not publish messages on booking\.created, and this job has no schema"):
        ask(local, "frontdesk.open", Trigger(given, "why"))
    assert not JobRun.objects.exists()


def test_as_it_stands_a_job_runs_for_who_may_not_do_what_it_does(publishes_elsewhere: Callable[..., object]) -> None:
    publishes_elsewhere()
    local = actor(Role.OPERATOR, "frontdesk.*")
    for given in (None, {"room": "all"}):
        assert trigger(local, "frontdesk.open", Trigger(given, "why")).run.parameters == {"room": "all"}
    assert foresee(local, "frontdesk.open", Trigger({"room": "all"}))


def test_a_schema_says_which_parameters_others_may_have_it_run_with(publishes_elsewhere: Callable[..., object]) -> None:
    publishes_elsewhere(parameters_schema={"properties": {"room": {"enum": ["all", "mine"]}}})
    local = actor(Role.OPERATOR, "frontdesk.*")
    assert trigger(local, "frontdesk.open", Trigger({"room": "mine"}, "why")).new
    with pytest.raises(BadInput, match="do not fit"):
        trigger(local, "frontdesk.open", Trigger({"room": "yours"}, "why"))


def test_who_may_do_what_it_does_needs_no_schema(publishes_elsewhere: Callable[..., object]) -> None:
    publishes_elsewhere()
    assert trigger(actor(Role.OPERATOR), "frontdesk.open", Trigger({"room": "mine"}, "why")).new


def test_a_secret_that_is_typed_is_refused_whether_it_is_the_jobs_or_not(make_job: MakeJob, topic: object) -> None:
    make_job("publish", "booking.created", "frontdesk.open", parameters={"password": "geheim"})
    local = actor(Role.OPERATOR, "frontdesk.*")
    for guess in ("geheim", "other"):
        with pytest.raises(Forbidden):
            trigger(local, "frontdesk.open", Trigger({"password": guess}, "why"))
    assert trigger(local, "frontdesk.open", Trigger({"password": "•••"}, "why")).new
