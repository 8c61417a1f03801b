"""A schema that compares what is typed with a secret beside it tells nothing by its answer.

Found by a stranger: character by character an operator read a password out of dry runs, and no entry told of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.test import Client

from engine.core.errors import BadInput
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, Actor
from hbus_console.jobs.as_code import plan
from hbus_console.jobs.models import Job
from hbus_console.jobs.services.draft import JobDraft
from hbus_console.jobs.services.foreseeing import foresee
from hbus_console.jobs.services.jobs import change_job, restore_version
from hbus_console.jobs.services.triggering import Trigger, trigger
from hbus_console.jobs.showing import MASK
from tests.hbus_console.jobs.conftest import MakeJob
from tests.hbus_console.jobs.test_guessing import said
from tests.hbus_console.topics.conftest import Caller, actor

NAME, SECRET = "close-of-day", "FA1CE2"
RIGHT, WRONG = "F", "A"


def rule(letter: str) -> dict[str, Any]:
    return {
        "if": {"properties": {"probe": {"const": letter}}, "required": ["probe"]},
        "then": {"properties": {"password": {"pattern": f"^{letter}"}}},
    }


def outside(letter: str) -> dict[str, Any]:
    """The same, whose fault lies at what is typed."""
    return {
        "if": {"properties": {"password": {"pattern": f"^{letter}"}}, "required": ["password"]},
        "else": {"properties": {"probe": {"not": {"const": letter}}}},
    }


#: What a schema may say to compare the two.
SCHEMAS: dict[str, dict[str, Any]] = {
    "at the secret": {"allOf": [rule(RIGHT), rule(WRONG)]},
    "at what is typed": {"allOf": [outside(RIGHT), outside(WRONG)]},
    "one of": {
        "anyOf": [
            {"properties": {"probe": {"const": letter}, "password": {"pattern": f"^{letter}"}}}
            for letter in (RIGHT, WRONG)
        ]
    },
    "not": {
        "not": {
            "properties": {"probe": {"const": RIGHT}, "password": {"not": {"pattern": f"^{RIGHT}"}}},
            "required": ["probe"],
        }
    },
}
comparing = pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)


@pytest.fixture
def job(make_job: MakeJob, schema: dict[str, Any]) -> Job:
    # Called secret by its name alone too.
    return make_job("http", "https://1.1.1.1/", parameters={"password": SECRET}, parameters_schema=schema)


@pytest.fixture
def operator() -> Actor:
    return actor(Role.OPERATOR)


def given(guess: str) -> dict[str, Any]:
    return {"password": MASK, "probe": guess}


@comparing
def test_no_schema_tells_a_secret_by_what_it_says_to_a_guess(
    job: Job, operator: Actor, signed_in: Callable[..., Client], calling: Callable[..., Caller]
) -> None:
    page, api = signed_in(Role.OPERATOR), calling(Role.OPERATOR)
    right, wrong = (
        [
            said(partial(foresee, operator, NAME, Trigger(given(guess)))).startswith("BadInput"),
            api("POST", f"jobs/{NAME}/trigger/dry-run", {"parameters": given(guess)}).status_code,
            # The sheet leaves the secret out.
            "do not fit"
            in page.post(f"/jobs/{NAME}/trigger/dry-run/", {"parameters": f'{{"probe": "{guess}"}}'}).content.decode(),
            said(partial(trigger, operator, NAME, Trigger(given(guess), "why"))).startswith("BadInput"),
        ]
        for guess in (RIGHT, WRONG)
    )
    assert right == wrong


@comparing
def test_nor_to_one_that_is_set_in_the_job_by_page_api_or_file(
    job: Job, operator: Actor, calling: Callable[..., Caller]
) -> None:
    api = calling(Role.EDITOR)
    answers: list[list[Any]] = []
    for guess in (RIGHT, WRONG):
        same = {name: getattr(job, name) for name in ("kind", "target", "schedule", "parameters_schema")}
        draft = JobDraft(NAME, "ops", **same, parameters=given(guess))
        answers.append(
            [
                said(partial(plan, SYSTEM, [draft])).startswith("BadInput"),
                api("PATCH", f"jobs/{NAME}", {"parameters": given(guess), "reason": "why"}).status_code,
                # It stands in the job now, and a run with what is there asks nothing either.
                said(partial(foresee, operator, NAME, Trigger())).startswith("BadInput"),
                api("PATCH", f"jobs/{NAME}", {"timeout_s": 60 if guess == RIGHT else 61, "reason": "why"}).status_code,
            ]
        )
        now = Job.objects.get(name=NAME).version
        change_job(SYSTEM, NAME, {"parameters": {"password": MASK}}, "back")
        answers[-1].append(said(lambda number=now: restore_version(SYSTEM, NAME, number, "again").name))
        change_job(SYSTEM, NAME, {"parameters": {"password": MASK}}, "back")
    assert answers[0] == answers[1]


@pytest.mark.parametrize("schema", [SCHEMAS["at the secret"]])
def test_who_types_the_secret_is_told_whether_it_fits_and_the_rest_is_asked_as_ever(job: Job, operator: Actor) -> None:
    with pytest.raises(BadInput, match="password does not match"):
        foresee(operator, NAME, Trigger({"password": "Bxx", "probe": RIGHT}))
    change_job(
        SYSTEM,
        NAME,
        {"parameters_schema": {"properties": {"n": {"type": "integer"}}}, "parameters": {"password": SECRET}},
    )
    with pytest.raises(BadInput, match=r"n must be of type integer.*type that too"):
        foresee(operator, NAME, Trigger({"password": MASK, "n": "x"}))
    run = trigger(operator, NAME, Trigger({"password": MASK, "n": 1}, "why")).run
    assert run.parameters == {"password": SECRET, "n": 1}


def test_a_new_job_is_asked_whole(make_job: MakeJob) -> None:
    with pytest.raises(BadInput, match="password does not match"):
        make_job("http", "https://1.1.1.1/", parameters={"password": "x", "probe": "F"}, parameters_schema=rule("F"))
