"""A function is called by the jobs of those who may edit jobs where its name lies."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.test import Client

from engine.core.errors import BadInput
from engine.cron.work.functions import forget_functions, job_function
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, Actor, Forbidden, ScopedRole
from hbus_console.jobs.as_code import plan
from hbus_console.jobs.models import Job
from hbus_console.jobs.services.draft import JobDraft
from hbus_console.jobs.services.jobs import change_job, restore_version
from tests.hbus_console.jobs.conftest import MakeJob
from tests.hbus_console.topics.conftest import actor

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
NAME, FUNCTION = "alien.close", "test.nightly-close"
REFUSED = f"may not make and edit jobs on {FUNCTION}"


@pytest.fixture(autouse=True)
def function() -> Iterator[None]:
    @job_function(FUNCTION)
    def close() -> None:
        """Closes the day."""

    yield
    forget_functions(FUNCTION)


def _editor(*scopes: str) -> Actor:
    return Actor(name="e", user_id=1, grants=tuple(ScopedRole(Role.EDITOR, scope) for scope in scopes))


@pytest.mark.parametrize("scopes", [("alien.*", "test.*"), ("alien.*", FUNCTION), ("*",)], ids=" ".join)
def test_a_function_is_called_by_who_may_edit_jobs_of_its_name(make_job: MakeJob, scopes: tuple[str, ...]) -> None:
    assert make_job("function", FUNCTION, NAME, by=_editor(*scopes)).target == FUNCTION


def test_nobody_else_has_it_called(make_job: MakeJob) -> None:
    alien = _editor("alien.*")
    with pytest.raises(Forbidden, match=REFUSED):
        make_job("function", FUNCTION, NAME, by=alien)
    make_job("http", "https://1.1.1.1/", NAME, by=alien)
    with pytest.raises(Forbidden, match=REFUSED):
        change_job(alien, NAME, {"kind": "function", "target": FUNCTION})
    with pytest.raises(BadInput, match=REFUSED):
        plan(alien, [JobDraft(NAME, "ops", "function", FUNCTION, "0 3 * * *")])
    change_job(SYSTEM, NAME, {"kind": "function", "target": FUNCTION})
    with pytest.raises(Forbidden, match=REFUSED):
        change_job(alien, NAME, {"timeout_s": 60})
    change_job(SYSTEM, NAME, {"kind": "http", "target": "https://1.1.1.1/"})
    with pytest.raises(Forbidden, match=REFUSED):
        restore_version(alien, NAME, 2, "back")
    assert Job.objects.get(name=NAME).kind == "http"


def test_who_may_not_have_it_called_is_not_told_whether_it_is_there(make_job: MakeJob) -> None:
    told = []
    for name in (FUNCTION, "test.nothing"):
        with pytest.raises(Forbidden) as refused:
            make_job("function", name, NAME, by=_editor("alien.*"))
        told.append((refused.value.what.replace(name, ""), refused.value.remedy.replace(name, "")))
    assert told[0] == told[1]


@pytest.mark.parametrize(("scope", "named"), [("test.*", True), ("alien.*", False)])
def test_the_form_names_the_functions_that_one_may_have_called(
    make_job: MakeJob, signed_in: Callable[..., Client], scope: str, named: bool
) -> None:
    client = signed_in(Role.EDITOR, scope)
    assert (FUNCTION in client.get("/jobs/new/").content.decode()) is named
    own = f"{scope.removesuffix('*')}close"
    make_job("http", "https://1.1.1.1/", own, by=actor(Role.ADMIN))
    assert (FUNCTION in client.get(f"/jobs/{own}/settings/").content.decode()) is named
