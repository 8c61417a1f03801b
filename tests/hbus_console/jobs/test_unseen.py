"""A job that somebody may not see is not named to them by one that they may see and that runs after it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from engine.core.errors import BadInput
from engine.cron.slots.job import JobPolicy
from engine.cron.slots.steps import Begin, End, RunState
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, Actor
from hbus_console.jobs.judge import SlotJudge
from hbus_console.jobs.models import Job, JobRun
from hbus_console.jobs.services.jobs import change_job, restore_version
from hbus_console.jobs.services.triggering import Trigger, trigger
from hbus_console.jobs.unseen import ANOTHER, restored_after, shown_after
from tests.hbus_console.jobs.conftest import MakeJob
from tests.hbus_console.topics.conftest import Caller, actor

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
POLICY = JobPolicy()
MINE, THEIRS = "mine.bill", "lab.secret-close"


@pytest.fixture
def told_to(
    signed_in: Callable[..., Client], calling: Callable[..., Caller]
) -> Callable[[Role, str], tuple[Client, Caller]]:
    """The pages and the API of a person."""
    return lambda role, scope: (signed_in(role, scope), calling(role, scope))


@pytest.fixture
def followed(make_job: MakeJob) -> JobRun:
    """A run of a job of mine, which follows one of theirs and one of mine."""
    make_job("http", "https://1.1.1.1/", THEIRS)
    make_job("http", "https://1.1.1.1/", "mine.close")
    make_job("http", "https://1.1.1.1/", MINE, schedule="@never", after=f"{THEIRS} any\nmine.close success")
    run = trigger(SYSTEM, THEIRS, Trigger(None, "why")).run
    judge = SlotJudge()
    judge.begin(Begin(run.pk, 1, "node-1:jobs:0:7#a", POLICY))
    judge.end(End(run.pk, 1, RunState.DONE, POLICY))
    return JobRun.objects.get(job=MINE)


@pytest.mark.parametrize(("scope", "sees"), [("mine.*", False), ("*", True)])
@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR, Role.EDITOR])
def test_a_job_that_one_may_not_see_is_another_job_wherever_it_is_named(
    followed: JobRun, told_to: Callable[..., tuple[Client, Caller]], role: Role, scope: str, sees: bool
) -> None:
    change_job(SYSTEM, MINE, {"after": f"{THEIRS} success\nmine.close success"})
    client, api = told_to(role, scope)
    pages = [f"/jobs/{MINE}/", "/runs/", f"/jobs/{MINE}/settings/", f"/jobs/{MINE}/versions/"]
    pages += [f"/jobs/{MINE}/runs/{followed.pk}/"]
    calls = ["jobs", f"jobs/{MINE}", f"jobs/{MINE}/versions", "runs", f"jobs/{MINE}/runs"]
    calls += [f"jobs/{MINE}/runs/{followed.pk}"]
    texts = [client.get(path).content.decode() for path in pages]
    texts += [api("GET", path).content.decode() for path in calls]
    assert [THEIRS in text for text in texts] == [sees] * len(texts)
    # Pages speak of other jobs anyway.
    assert sees or all(ANOTHER in text for text in texts)
    assert [ANOTHER in text for text in texts[len(pages) :]] == [not sees] * len(calls)
    told = api("GET", calls[-1]).json()
    assert (told["asked_by"] == f"job {THEIRS}") is sees
    assert told["asked_why"].endswith(" ended: done")


def test_what_acts_answer_names_none_that_one_may_not_see(followed: JobRun, calling: Callable[..., Caller]) -> None:
    api = calling(Role.EDITOR, "mine.*")
    for path in (f"jobs/{MINE}/pause", f"jobs/{MINE}/runs/{followed.pk}/cancel"):
        answer = api("POST", path, {"reason": "why"})
        assert (answer.status_code, THEIRS in answer.content.decode()) == (200, False)


def test_another_job_stands_for_the_one_that_it_hides(followed: JobRun) -> None:
    mine = actor(Role.EDITOR, "mine.*")
    shown = shown_after(mine, Job.objects.get(name=MINE).after)
    assert shown == f"{ANOTHER} any\nmine.close success"
    assert change_job(mine, MINE, {"after": shown}).version == 1
    assert change_job(mine, MINE, {"after": f"{ANOTHER} failure"}).after == f"{THEIRS} failure"
    assert change_job(mine, MINE, {"after": ""}).after == ""
    for text in (f"{ANOTHER} failure", ANOTHER):
        with pytest.raises(BadInput, match="not known here") as refused:
            change_job(mine, MINE, {"after": text})
        assert refused.value.field == "after"
    with pytest.raises(BadInput, match="a job that you may not see") as refused:
        restore_version(mine, MINE, 1, "back")
    assert THEIRS not in refused.value.what


def test_of_several_hidden_ones_each_is_what_it_was() -> None:
    before = "a.one any\na.two success\na.three any\nb success"
    nobody = Actor(name="n")
    assert restored_after(nobody, shown_after(nobody, before), before) == before
    assert restored_after(nobody, f"{ANOTHER} success\n{ANOTHER} any", before) == "a.two success\na.one any"
    assert restored_after(nobody, f"{ANOTHER}\nnew any", "a.one any") == "a.one\nnew any"
