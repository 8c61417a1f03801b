"""A file of jobs is compared with what there is and made so; one that does not fit changes nothing."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from django.core.management import call_command

from engine.core.errors import BadInput, HbusError
from hbus_console.jobs.as_code import read_jobs
from hbus_console.jobs.models import Job, JobVersion
from hbus_console.teams.models import Team

pytestmark = pytest.mark.django_db
FILE = """
defaults: {owner: ops, kind: http, zone: Europe/Lisbon}
jobs:
  - {name: hotel.close, target: "https://1.1.1.1/close", schedule: "0 3 * * *"}
  - {name: hotel.bill, target: "https://1.1.1.1/bill", schedule: "0 4 1 * *", timeout_s: 60, parameters: {all: true}}
"""


@pytest.fixture(autouse=True)
def _team() -> None:
    Team.objects.create(name="ops", contact="#ops")


def run(tmp_path: Path, text: str, act: str, *more: str) -> str:
    (tmp_path / "jobs.yaml").write_text(text, encoding="utf-8")
    out = io.StringIO()
    reason = ("--reason", "as the file says") if act == "apply" else ()
    call_command("job", act, str(tmp_path / "jobs.yaml"), *reason, *more, stdout=out, stderr=out)
    return out.getvalue()


def test_it_is_made_once_and_then_as_it_is(tmp_path: Path) -> None:
    assert run(tmp_path, FILE, "plan") == "create hotel.close\ncreate hotel.bill\n0 of 2 as they are.\n"
    assert not Job.objects.exists()
    run(tmp_path, FILE, "apply")
    bill = Job.objects.get(name="hotel.bill")
    assert (bill.zone, bill.timeout_s, bill.parameters, bill.acts_as) == ("Europe/Lisbon", 60, {"all": True}, "system")
    assert run(tmp_path, FILE, "apply") == "2 of 2 as they are.\n"
    assert JobVersion.objects.count() == 2


def test_what_differs_is_told_and_changed_and_what_is_left_out_is_as_new(tmp_path: Path) -> None:
    run(tmp_path, FILE, "apply")
    other = FILE.replace("timeout_s: 60, ", "overlap: skip, ")
    said = run(tmp_path, other, "apply")
    assert "change hotel.bill\n  timeout_s: 60 -> 3600\n" in said
    assert "  overlap: 'run' -> 'skip'\n" in said
    assert Job.objects.get(name="hotel.bill").version == 2


def test_only_what_is_asked_for_is_deleted(tmp_path: Path) -> None:
    run(tmp_path, FILE, "apply")
    one = "\n".join(FILE.splitlines()[:-1])
    assert run(tmp_path, one, "apply") == "1 of 1 as they are.\n"
    assert "delete hotel.bill" in run(tmp_path, one, "apply", "--prune", "hotel.")
    assert list(Job.objects.values_list("name", flat=True)) == ["hotel.close"]


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("jobs: {", "file"),
        ("- a", "jobs"),
        ("jobs: [7]", "jobs.1"),
        ("jobs: []\nteams: []", "teams"),
        ("jobs: [{name: a, owner: ops, kind: http, target: x}]", "jobs.a.schedule"),
        (FILE.replace("timeout_s", "time"), "jobs.hotel.bill.time"),
        (FILE.replace("hotel.bill", "hotel.close"), "jobs.hotel.close"),
        (FILE.replace("0 4 1 * *", "0 4 31 2 *"), "jobs.hotel.bill.schedule"),
        (FILE.replace("https://1.1.1.1/bill", "http://127.0.0.1/"), "jobs.hotel.bill.target"),
    ],
)
def test_one_that_does_not_fit_changes_nothing(tmp_path: Path, text: str, field: str) -> None:
    with pytest.raises(BadInput) as refused:
        run(tmp_path, text, "apply")
    assert refused.value.field == field
    assert not Job.objects.exists()


def test_what_cannot_be_made_so_is_told_and_the_others_are(tmp_path: Path) -> None:
    with pytest.raises(HbusError, match="1 could not be made so"):
        run(tmp_path, FILE.replace('schedule: "0 3 * * *"', 'schedule: "0 3 * * *", owner: nobody'), "apply")
    assert list(Job.objects.values_list("name", flat=True)) == ["hotel.bill"]


def test_a_file_without_end_is_refused() -> None:
    with pytest.raises(BadInput, match="larger than"):
        read_jobs("jobs: []\n" + "#" * 5_000_000)
