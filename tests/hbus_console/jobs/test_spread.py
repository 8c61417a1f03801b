"""Where a schedule spreads by the job's name, that name is asked whether it ever comes, and what is left of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.core.errors import BadInput
from hbus_console.access.permissions import SYSTEM
from hbus_console.jobs.as_code import apply, plan
from hbus_console.jobs.models import Job
from hbus_console.jobs.services.draft import JobDraft
from hbus_console.jobs.services.jobs import change_job
from tests.hbus_console.jobs.conftest import MakeJob

pytestmark = pytest.mark.django_db
#: A day of the week: of the job "a" it is Friday, and of no job at all Thursday.
WEEKLY = "H 3 * * H"
#: Of the job "b" it is the 29th, and of "a", as of no job at all, a day that February never has.
LEAP = "0 3 H(29-31) 2 *"
#: By which of the three ways a job becomes so.
Way = Callable[[str, str, str], None]


@pytest.fixture(params=["made", "changed", "by a file"])
def way(request: pytest.FixtureRequest, make_job: MakeJob) -> Way:
    def become(name: str, schedule: str, excluded: str) -> None:
        wanted = {"schedule": schedule, "excluded": excluded}
        if request.param == "made":
            make_job("http", "https://1.1.1.1/", name, **wanted)
        elif request.param == "changed":
            make_job("http", "https://1.1.1.1/", name)
            change_job(SYSTEM, name, wanted)
        else:
            (planned,) = plan(SYSTEM, [JobDraft(name, "ops", "http", "https://1.1.1.1/", **wanted)])
            apply(SYSTEM, planned, "as the file says")

    return become


@pytest.mark.parametrize(("name", "schedule", "excluded"), [("a", WEEKLY, "Thu"), ("b", LEAP, "")])
def test_what_its_name_leaves_a_slot_is_taken(way: Way, name: str, schedule: str, excluded: str) -> None:
    way(name, schedule, excluded)
    row = Job.objects.get()
    assert (row.schedule, row.excluded) == (schedule, excluded)


@pytest.mark.parametrize(
    ("schedule", "excluded", "field"), [(WEEKLY, "Fri", "excluded"), (LEAP, "", "schedule")], ids=["left out", "never"]
)
def test_what_its_name_leaves_none_is_refused(way: Way, schedule: str, excluded: str, field: str) -> None:
    with pytest.raises(BadInput) as refused:
        way("a", schedule, excluded)
    assert refused.value.field.endswith(field)
    assert not Job.objects.filter(schedule=schedule).exists()
