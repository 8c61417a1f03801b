"""No answer depends on the value of a secret: nobody may see it, and nobody finds it out by guesses."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from engine.core.errors import BadInput, HbusError
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, Actor, Forbidden
from hbus_console.audit.models import AuditEntry
from hbus_console.jobs.models import Job, JobRun
from hbus_console.jobs.services.foreseeing import foresee
from hbus_console.jobs.services.jobs import change_job, restore_version
from hbus_console.jobs.services.triggering import Trigger, trigger
from hbus_console.jobs.showing import MASK
from tests.hbus_console.jobs.conftest import MakeJob
from tests.hbus_console.topics.conftest import Caller, actor

NAME, RIGHT, WRONG = "close-of-day", "0042", "0041"
SCHEMA = {"properties": {"pin": {"type": "string", "writeOnly": True}}}


def given(pin: str, password: str) -> dict[str, Any]:
    return {"hotel": "HB-1", "pin": pin, "auth": {"user": "svc", "password": password}}


GIVEN = given(RIGHT, RIGHT)
#: One secret at a time; the others stay masked.
GUESSED: dict[str, Callable[[str], dict[str, Any]]] = {
    "by its schema": lambda guess: given(guess, MASK),
    "by its name, deep": lambda guess: given(MASK, guess),
    "both": lambda guess: given(guess, guess),
}
Guessed = Callable[[str], dict[str, Any]]
guessed = pytest.mark.parametrize("typed", GUESSED.values(), ids=GUESSED)


@pytest.fixture
def job(make_job: MakeJob) -> Job:
    return make_job("http", "https://1.1.1.1/", parameters=GIVEN, parameters_schema=SCHEMA)


@pytest.fixture
def operator() -> Actor:
    return actor(Role.OPERATOR)


def said(ask: Callable[[], object]) -> str:
    """An answer in words."""
    try:
        return str(ask())
    except HbusError as refused:
        return f"{type(refused).__name__}: {refused}"


@guessed
@pytest.mark.parametrize("own", [None, GIVEN], ids=["the job's own", "one's own"])
def test_a_trigger_again_under_its_key_confirms_none(
    job: Job, operator: Actor, typed: Guessed, own: dict[str, Any] | None
) -> None:
    run = trigger(operator, NAME, Trigger(own, "why", "k")).run
    for guess in (WRONG, RIGHT):
        asked = Trigger(typed(guess), "why", "k")
        again = trigger(operator, NAME, asked)
        assert (again.run.pk, again.new) == (run.pk, False)
        assert "has made run" in said(partial(foresee, operator, NAME, asked))
    with pytest.raises(BadInput, match="with other parameters"):
        trigger(operator, NAME, Trigger({**GIVEN, "hotel": "HB-2"}, "why", "k"))
    assert JobRun.objects.count() == 1


@guessed
def test_a_change_confirms_none_and_each_guess_leaves_a_trace(
    job: Job, calling: Callable[..., Caller], typed: Guessed
) -> None:
    api = calling(Role.EDITOR)
    for guess in (RIGHT, WRONG):
        made = api("PATCH", f"jobs/{NAME}", {"parameters": typed(guess), "reason": "why"})
        entry = AuditEntry.objects.order_by("-seq")[0]
        assert (made.status_code, made.json()["parameters"]) == (200, given(MASK, MASK))
        assert (entry.action, entry.after["masked"]) == ("job.change", "changed")
        restore_version(SYSTEM, NAME, 1, "back")
    assert Job.objects.get(name=NAME).version == 5


@pytest.mark.parametrize("reason", ["x" * 6_000, "a\x00b", 7], ids=["too long", "control characters", "no text"])
def test_a_reason_that_does_not_fit_is_refused_whether_anything_differs_or_not(job: Job, reason: Any) -> None:
    answers = [
        said(partial(change_job, SYSTEM, NAME, {"parameters": {**GIVEN, "pin": guess}}, reason))
        for guess in (WRONG, RIGHT, MASK)
    ]
    assert answers[0].startswith("Unfit")
    assert len(set(answers)) == 1


def test_who_may_not_change_what_it_does_is_refused_a_right_guess_too(make_job: MakeJob, settings: Any) -> None:
    settings.HBUS_JOB_COMMANDS = ["echo"]
    make_job("command", "echo", by=actor(Role.ADMIN), parameters={"pin": RIGHT}, parameters_schema=SCHEMA)
    for guess in (WRONG, RIGHT):
        with pytest.raises(Forbidden):
            change_job(actor(Role.EDITOR), NAME, {"parameters": {"pin": guess}}, "why")


def test_restoring_confirms_none(job: Job) -> None:
    change_job(SYSTEM, NAME, {"parameters": GIVEN}, "why")
    assert restore_version(SYSTEM, NAME, 1, "back").version == 3
    assert restore_version(SYSTEM, NAME, 2, "back").version == 4
    assert AuditEntry.objects.filter(action="job.restore", after__masked="changed").count() == 2
    assert restore_version(SYSTEM, NAME, 4, "back").version == 4


@pytest.mark.parametrize("secret", [{"realm": "x"}, "text", ["a"], {}], ids=["that name", "text", "a list", "nothing"])
@pytest.mark.parametrize("inner", [{"realm": MASK}, [MASK]], ids=["a name", "an item"])
def test_a_mask_within_what_is_masked_whole_stands_for_nothing(
    make_job: MakeJob, operator: Actor, secret: Any, inner: Any
) -> None:
    """Or the answer would tell which names it has, and how many items."""
    schema = {"properties": {"pin": {"writeOnly": True}}}
    make_job("http", "https://1.1.1.1/", parameters={"pin": secret}, parameters_schema=schema)
    for refused in (
        lambda: foresee(operator, NAME, Trigger({"pin": inner})),
        lambda: change_job(SYSTEM, NAME, {"parameters": {"pin": inner}}, "why"),
    ):
        with pytest.raises(BadInput, match="stands for a secret that is not known here"):
            refused()
    assert trigger(operator, NAME, Trigger({"pin": MASK}, "why")).run.parameters == {"pin": secret}


UNIQUE = {"properties": {"keys": {"uniqueItems": True, "items": {"properties": {"pin": {}}}}}}
HELD: dict[str, tuple[dict[str, Any], Callable[[str], list[Any]]]] = {
    "items": ({**UNIQUE, "writeOnly": False}, lambda guess: [{"pin": MASK}, {"pin": guess}]),
    "an item more": (UNIQUE, lambda guess: [{"pin": MASK}, {"pin": MASK}, {"pin": guess}]),
    "within a list": (UNIQUE, lambda guess: [{"pin": MASK}, {"pin": MASK, "list": [guess]}]),
}


@pytest.mark.parametrize(("schema", "typed"), HELD.values(), ids=HELD)
def test_no_guess_stands_in_a_list_beside_a_mask(
    make_job: MakeJob, operator: Actor, schema: dict[str, Any], typed: Callable[[str], list[Any]]
) -> None:
    """Found by a stranger: ``uniqueItems`` told a right guess from a wrong one, and left no trace."""
    secret = {"properties": {"keys": {"items": {"properties": {"pin": {"writeOnly": True}}}}}}
    keys = [{"pin": RIGHT}, {"pin": "0043"}]
    make_job("http", "https://1.1.1.1/", parameters={"keys": keys}, parameters_schema={"allOf": [schema, secret]})
    asks: list[Callable[[dict[str, Any]], object]] = [
        lambda given: foresee(operator, NAME, Trigger(given)),
        lambda given: trigger(operator, NAME, Trigger(given, "why")),
        lambda given: change_job(SYSTEM, NAME, {"parameters": given}, "why"),
    ]
    for ask in asks:
        answers = {said(partial(ask, {"keys": typed(guess)})) for guess in (WRONG, RIGHT)}
        assert len(answers) == 1
        assert "parameters.keys holds a secret, and is not as it was shown" in answers.pop()
    shown = {"keys": [{"pin": MASK}, {"pin": MASK}]}
    assert trigger(operator, NAME, Trigger(shown, "why")).run.parameters == {"keys": keys}
    anew = {"keys": [{"pin": "1"}, {"pin": "2"}]}
    assert trigger(operator, NAME, Trigger(anew, "why")).run.parameters == anew


def test_what_types_no_secret_still_changes_nothing_and_says_so(job: Job) -> None:
    assert change_job(SYSTEM, NAME, {"parameters": given(MASK, MASK)}, "why").version == 1
    assert change_job(SYSTEM, NAME, {"schedule": job.schedule}, "why").version == 1
    assert not AuditEntry.objects.filter(action="job.change").exists()
