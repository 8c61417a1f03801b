"""A file of jobs is compared with what there is and made so; one that does not fit changes nothing."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from django.core.management import call_command

from engine.core.errors import BadInput, Conflict
from hbus_console.access.permissions import SYSTEM
from hbus_console.jobs.as_code import apply, plan, read_jobs
from hbus_console.jobs.management.commands.job import Command
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


SECRET = """
jobs:
  - {name: bill, owner: ops, kind: http, target: "https://1.1.1.1/", schedule: "@daily", parameters: {token: one, n: 1}}
"""


def test_a_secret_is_changed_and_neither_told_nor_masked_for_good(tmp_path: Path) -> None:
    run(tmp_path, SECRET, "apply")
    said = run(tmp_path, SECRET.replace("one", "two"), "apply")
    assert "change bill\n  parameters: " in said
    assert "two" not in said
    assert Job.objects.get().parameters == {"token": "two", "n": 1}
    # As it is shown, it stays.
    assert run(tmp_path, SECRET.replace("one", "•••"), "apply") == "1 of 1 as they are.\n"
    run(tmp_path, SECRET.replace("one", "•••").replace("n: 1", "n: 2"), "apply")
    assert Job.objects.get().parameters == {"token": "two", "n": 2}
    with pytest.raises(BadInput, match="another way"):
        run(tmp_path, SECRET.replace("one", "•••").replace("1.1.1.1", "1.1.1.2"), "plan")


SCHEMA = "{properties: {pin: {writeOnly: true}}}"


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("https://1.1.1.1/", "https://1.1.1.2/"),
        ("n: 1}", "n: 1}, options: {method: PUT}"),
        ("n: 1}", f"n: 1}}, parameters_schema: {SCHEMA}"),
    ],
    ids=["target", "options", "schema"],
)
def test_who_types_its_secrets_may_have_a_job_do_something_else_with_them(tmp_path: Path, was: str, now: str) -> None:
    run(tmp_path, SECRET, "apply")
    other = SECRET.replace(was, now)
    assert other != SECRET
    planned = run(tmp_path, other, "plan")
    assert run(tmp_path, other, "apply") == planned
    row = Job.objects.get()
    assert (row.version, row.parameters) == (2, {"token": "one", "n": 1})
    assert run(tmp_path, other, "apply") == "1 of 1 as they are.\n"


CHAIN = """
defaults: {owner: ops, kind: http, target: "https://1.1.1.1/", schedule: "@daily"}
jobs:
  - {name: c, after: b}
  - {name: b, after: a}
  - {name: a}
"""


def test_what_others_run_after_is_made_first_and_deleted_last(tmp_path: Path) -> None:
    assert run(tmp_path, CHAIN, "plan") == "create a\ncreate b\ncreate c\n0 of 3 as they are.\n"
    assert run(tmp_path, CHAIN, "apply") == "create a\ncreate b\ncreate c\n0 of 3 as they are.\n"
    # The other way round.
    turned = CHAIN.replace("{name: a}", "{name: a, after: b}").replace("b, after: a", "b, after: c")
    turned = turned.replace("c, after: b", "c")
    assert "0 of 3" in run(tmp_path, turned, "apply")
    assert dict(Job.objects.values_list("name", "after")) == {"a": "b success", "b": "c success", "c": ""}
    one = 'jobs: [{name: z, owner: ops, kind: http, target: "https://1.1.1.1/", schedule: "@daily"}]'
    for name in "abc":
        Job.objects.filter(name=name).update(name=f"d.{name}")
    Job.objects.exclude(after="").delete()
    run(tmp_path, CHAIN.replace("name: ", "name: e.").replace("after: ", "after: e."), "apply")
    deleted = run(tmp_path, one, "apply", "--prune", "e.")
    lines = [line for line in deleted.splitlines() if line.startswith("delete")]
    assert lines == ["delete e.c", "delete e.b", "delete e.a"]
    assert not Job.objects.filter(name__startswith="e.").exists()


@pytest.mark.parametrize(
    ("text", "prune", "said"),
    [
        (CHAIN.replace("  - {name: a}", ""), "", "b runs after a, which is neither in the file nor there"),
        (CHAIN.replace("{name: a}", "{name: a, after: c}"), "", "would run after itself: "),
        ('jobs: [{name: z, owner: ops, kind: http, target: "https://1.1.1.1/", schedule: "@daily"}]', "x.a", ""),
    ],
)
def test_a_plan_refuses_what_could_not_be_done(tmp_path: Path, text: str, prune: str, said: str) -> None:
    run(tmp_path, CHAIN.replace("name: ", "name: x.").replace("after: ", "after: x."), "apply")
    before = set(Job.objects.values_list("name", flat=True))
    with pytest.raises(BadInput, match=said or "x.b runs after x.a, which would be deleted"):
        run(tmp_path, text, "plan", *(("--prune", prune) if prune else ()))
    assert set(Job.objects.values_list("name", flat=True)) == before


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
        (FILE.replace("hotel.bill", "b" * 65), f"jobs.{'b' * 65}.name"),
        (FILE.replace("hotel.bill", "Hotel/bill"), "jobs.Hotel/bill.name"),
        (FILE.replace("timeout_s: 60", "owner: nobody"), "jobs.hotel.bill.owner"),
    ],
)
@pytest.mark.parametrize("act", ["plan", "apply"])
def test_one_that_does_not_fit_changes_nothing(tmp_path: Path, text: str, field: str, act: str) -> None:
    with pytest.raises(BadInput) as refused:
        run(tmp_path, text, act)
    assert refused.value.field == field
    assert not Job.objects.exists()


@pytest.mark.parametrize("change", ["owner: nobody", "owner: ''", "target: 'http://127.0.0.1/'", "after: hotel.close"])
def test_a_plan_of_a_change_meets_what_the_change_would(tmp_path: Path, change: str) -> None:
    run(tmp_path, FILE, "apply")
    other = FILE.replace('target: "https://1.1.1.1/close", ', "") if "target" in change else FILE
    other = other.replace("hotel.close, ", f"hotel.close, {change}, ", 1)
    if change == "owner: ''":
        # Which a job may lose: its slots are skipped then.
        assert "owner: 'ops' -> ''" in run(tmp_path, other, "plan")
        return
    with pytest.raises(BadInput) as refused:
        run(tmp_path, other, "plan")
    assert refused.value.field == f"jobs.hotel.close.{change.partition(':')[0]}"


def test_what_cannot_be_made_so_is_told_and_the_others_are() -> None:
    drafts = read_jobs(FILE)
    planned = plan(SYSTEM, drafts)
    # Between the plan and its doing.
    apply(SYSTEM, planned[0], "by somebody else")
    with pytest.raises(Conflict):
        apply(SYSTEM, planned[0], "as the file says")
    told = io.StringIO()
    command = Command(stdout=told, stderr=told)
    assert [command._apply(SYSTEM, each, "as the file says") for each in planned] == [1, 0]
    assert "There is already a job hotel.close" in told.getvalue()
    assert set(Job.objects.values_list("name", flat=True)) == {"hotel.close", "hotel.bill"}


def test_a_file_without_end_is_refused() -> None:
    with pytest.raises(BadInput, match="larger than"):
        read_jobs("jobs: []\n" + "#" * 5_000_000)


UNLIKE_JSON = {
    "a date": ("parameters: {when: 2026-01-01}", "parameters", "when is a date, which JSON does not have"),
    "no number": ("parameters: {rates: [1, .nan]}", "parameters", r"rates\[1\] is nan"),
    "a name that is a number": ("parameters: {1: a}", "parameters", "the name 1"),
    "a set": ("options: {headers: !!set {a, b}}", "options", "headers is a set"),
    "bytes": ("parameters: {a: !!binary aGVsbG8=}", "parameters", "a is a bytes"),
    "NUL": ('parameters: {a: "x\\0y"}', "parameters", r"a holds the character U\+0000"),
    "half a character": ('description: "\\ud800"', "description", r"U\+D800"),
    "an excluded day without quotes": ("excluded: 2026-12-25", "excluded", "it is a date"),
}


@pytest.mark.parametrize(("line", "field", "said"), UNLIKE_JSON.values(), ids=UNLIKE_JSON.keys())
@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
def test_what_yaml_has_and_json_has_not_is_refused_by_the_plan_with_job_and_setting(
    tmp_path: Path, line: str, field: str, said: str, known: bool
) -> None:
    if known:
        run(tmp_path, FILE, "apply")
    file = FILE.replace("timeout_s: 60, parameters: {all: true}", line)
    with pytest.raises(BadInput, match=said) as refused:
        run(tmp_path, file, "plan")
    assert refused.value.field == f"jobs.hotel.bill.{field}"
    assert refused.value.what.startswith("hotel.bill: ")
    assert refused.value.remedy


def test_so_is_what_the_defaults_say(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="when is a date"):
        run(tmp_path, FILE.replace("zone: Europe/Lisbon", "parameters: {when: 2026-01-01}"), "plan")
