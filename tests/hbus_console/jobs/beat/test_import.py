"""``manage.py job import-beat`` writes the file of jobs that Celery's entries are, or says what they cannot be."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from django.core.management import call_command
from pytest_django import Settings

from engine.core.errors import BadInput
from hbus_console.jobs.as_code import read_jobs
from hbus_console.jobs.from_beat import import_beat, job_name
from hbus_console.jobs.models import Job
from hbus_console.jobs.services.draft import JobDraft
from hbus_console.stores import job_broker
from hbus_console.teams.models import Team

#: Takes the body of a project's module, and has the command read it: what it prints, and what it refuses.
Import = Callable[..., str]
WHOLE = """
app.conf.timezone = "Europe/Lisbon"
app.conf.task_routes = {"hotel.invoices.*": {"queue": "money"}}
app.conf.task_default_queue = "hotel"

@app.task(name="hotel.sync", queue="slow", expires=120)
def sync(*args, **kwargs): ...

app.conf.beat_schedule = {
    "Close of day": {
        "task": "hotel.close",
        "schedule": crontab(0, 3, day_of_month="1-7", day_of_week="mon"),
        "args": ("HB-1", [7, None]),
        "kwargs": {"dry": False, "who": {"a": 1.5}},
        "options": {"priority": 5, "retry": False, "serializer": "json"},
    },
    "invoices": {"task": "hotel.invoices.send", "schedule": crontab("*/15", "8-17", "mon-fri")},
    "sync": {"task": "hotel.sync", "schedule": 90.0},
    "midnight": {"task": "hotel.tick", "schedule": timedelta(days=1), "relative": True, "options": {"queue": "celery"}},
}

@app.on_after_configure.connect
def more(sender, **_):
    sender.add_periodic_task(30, sender.signature("hotel.beat", args=(1,)), expires=10)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def write(body: str) -> None:
        head = "import os\nfrom datetime import *\nfrom celery import Celery\nfrom celery.schedules import *\n"
        (tmp_path / "proj.py").write_text(f"{head}app = Celery('proj', broker='memory://')\n{body}", encoding="utf-8")

    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return write


@pytest.fixture
def imported(project: Callable[[str], None]) -> Import:
    def run(body: str, *more: str) -> str:
        project(body)
        out = io.StringIO()
        try:
            call_command("job", "import-beat", "proj:app", "--owner", "ops", *more, stdout=out, stderr=out)
        except BadInput as refused:
            out.write(str(refused))
        return out.getvalue()

    return run


def test_the_file_says_each_entry_as_a_job(imported: Import) -> None:
    text = imported(WHOLE)
    drafts = {draft.name: draft for draft in read_jobs(text)}
    patience = {"after_failure": "retry", "attempts": 5}
    common = {"zone": "Europe/Lisbon", **patience}
    assert drafts == {
        "close-of-day": JobDraft(
            "close-of-day", "ops", "celery", "hotel.close", "0 3 * * 1#1",
            options={"queue": "hotel", "priority": 5, "args": ["HB-1", [7, None]]},
            parameters={"dry": False, "who": {"a": 1.5}}, description="Celery's entry Close of day", **common,
        ),
        "invoices": JobDraft(
            "invoices", "ops", "celery", "hotel.invoices.send", "*/15 8-17 * * 1-5",
            options={"queue": "money"}, description="Celery's entry invoices", **common,
        ),
        # What the task itself says holds as well.
        "sync": JobDraft(
            "sync", "ops", "celery", "hotel.sync", "@every 90s",
            options={"queue": "slow", "expires": 120}, description="Celery's entry sync", **common,
        ),
        "midnight": JobDraft(
            "midnight", "ops", "celery", "hotel.tick", "0 0 * * *", description="Celery's entry midnight", **common,
        ),
        "hotel.beat-1": JobDraft(
            "hotel.beat-1", "ops", "celery", "hotel.beat", "@every 30s",
            options={"queue": "hotel", "expires": 10, "args": [1]}, **common,
            description="Celery's entry hotel.beat(1)",
        ),
    }  # fmt: skip
    # What it does not say, or says otherwise, is told beside it.
    assert "# Its option retry is left out: how often a beat tries to hand it over.\n  - name: close-of-day" in text
    assert "# Its periods are counted from 1970-01-01 00:00 UTC; Celery counts" in text
    assert "# When the clocks change" in text


@pytest.mark.django_db
def test_what_it_writes_is_planned_and_applied_as_it_is(imported: Import, tmp_path: Path, settings: Settings) -> None:
    settings.HBUS_JOB_BROKER = job_broker("redis://nowhere.invalid/0")
    Team.objects.create(name="ops", contact="#ops")
    file = str(tmp_path / "jobs.yaml")
    assert imported(WHOLE, "--output", file) == f"5 jobs stand in {file}.\n"
    out = io.StringIO()
    call_command("job", "apply", file, "--reason", "moved", stdout=out, stderr=out)
    call_command("job", "plan", file, stdout=out)
    assert out.getvalue().endswith("5 of 5 as they are.\n")
    made = Job.objects.get(name="close-of-day")
    assert (made.kind, made.target, made.parameters) == ("celery", "hotel.close", {"dry": False, "who": {"a": 1.5}})
    # A file that somebody may have worked on stays.
    assert "is there already" in imported(WHOLE, "--output", file)


def test_all_that_is_wrong_is_told_at_once_and_nothing_is_written(imported: Import, tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    said = imported(
        """
class Later(crontab): ...

sun = solar.__new__(solar)
sun.event, sun.nowfun = "sunset", None
app.conf.accept_content = ["pickle"]
app.conf.broker_transport_options = {"global_keyprefix": "x"}
app.conf.beat_schedule = {
    "dusk": {"task": "t", "schedule": sun},
    "friday-13": {"task": "t", "schedule": crontab(0, 0, day_of_month=13, day_of_week="fri")},
    "half": {"task": "t", "schedule": 0.5},
    "later": {"task": "t", "schedule": Later()},
    "option": {"task": "t", "schedule": 5, "options": {"link": None, "countdown": 3}},
    "expires": {"task": "t", "schedule": 5, "options": {"expires": datetime(2030, 1, 1)}},
    "exchange": {"task": "t", "schedule": 5, "options": {"exchange": "x", "routing_key": "y"}},
    "pickle": {"task": "t", "schedule": 5, "options": {"serializer": "pickle"}},
    "date": {"task": "t", "schedule": 5, "args": (date(2030, 1, 1),)},
    "keys": {"task": "t", "schedule": 5, "kwargs": {"a": {1: 2}}},
    "key": {"task": "t", "schedule": 5, "enabled": False},
    "taskless": {"schedule": 5},
    "§": {"task": "t", "schedule": 5},
    "A b": {"task": "t", "schedule": 5},
    "a_b": {"task": "t", "schedule": 5},
    "a-B": {"task": "t", "schedule": 5},
    "fine": {"task": "t", "schedule": 5},
}
""",
        "--output",
        str(file),
    )
    lines = said.splitlines()
    for beginning in (
        "Its workers take no JSON",
        "'dusk': It follows the sun (sunset)",
        "'friday-13': It asks for a day of the month and a day of the week at once",
        "'half': Its interval is not of whole seconds",
        "'later': Its schedule is of the class Later",
        "'option': Its option 'countdown' cannot be said of a job",
        "'expires': Its option expires is no number",
        "'exchange': Its option 'exchange' cannot be said of a job",
        "'pickle': Its option 'serializer' cannot be said of a job",
        "'date': Its args hold a date",
        "'keys': Its kwargs hold a dict",
        "'key': It says 'enabled', which no entry has",
        "'taskless': It names no task",
        "'§': No job can be called as it is",
        "'a-B': Its job would be called a-b, as that of 'A b'",
    ):
        assert any(line.startswith(beginning) for line in lines), (beginning, said)
    assert lines[-1].startswith("15 of what proj:app says cannot be imported; no file was written.")
    assert not file.exists()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("", "proj:app has no periodic entries"),
        ("raise SystemExit('redis://:hunter2@a')", "proj:app cannot be loaded: SystemExit"),
        ("os._exit(3)", "proj:app was not read (exit code 3)"),
        ("app = 7", "proj:app is a int, and no Celery app"),
        ("app.conf.enable_utc = False\napp.conf.beat_schedule = {'a': {'task': 't', 'schedule': 5}}", "no time zone"),
        ("app.conf.broker_transport_options = {'global_keyprefix': 'x'}\n", "global_keyprefix"),
    ],
)
def test_an_app_that_cannot_be_read_is_told_of(imported: Import, body: str, said: str) -> None:
    told = imported(body)
    assert said in told
    assert "hunter2" not in told


def test_an_app_that_takes_djangos_settings_takes_its_own(imported: Import, tmp_path: Path) -> None:
    """Not those of this console, whose process it would share."""
    (tmp_path / "shop.py").write_text(
        "SECRET_KEY = 'x'\nCELERY_TIMEZONE = 'Asia/Kolkata'\n"
        "CELERY_BEAT_SCHEDULE = {'a': {'task': 't', 'schedule': 5}}\n",
        encoding="utf-8",
    )
    text = imported(
        "os.environ.setdefault('DJANGO_SETTINGS_MODULE', 'shop')\n"
        "app.config_from_object('django.conf:settings', namespace='CELERY')\n"
    )
    assert [(draft.name, draft.zone) for draft in read_jobs(text)] == [("a", "Asia/Kolkata")]


def test_what_celerys_beat_adds_of_itself_is_there_too(imported: Import) -> None:
    text = imported(
        "app.conf.result_backend = f'file://{os.path.dirname(__file__)}'\napp.conf.beat_scheduler = 'x.y:Database'\n"
        "app.conf.beat_cron_starting_deadline = 600\n"
    )
    (draft,) = read_jobs(text)
    assert (draft.name, draft.schedule, draft.catch_up_window_s) == ("celery.backend_cleanup", "0 4 * * *", 600)
    assert draft.options["expires"] == 12 * 3600
    assert "# What x.y:Database keeps elsewhere than in beat_schedule is not read." in text


def test_names_and_values_that_yaml_would_take_for_something_else_arrive(imported: Import) -> None:
    kwargs = {"yes": "no", "n": "1e3", "text": "a: b\n# c\n\n  d ", "empty": "", "ü": "\u2028", "null": None}
    text = imported(f"app.conf.beat_schedule = {{'true': {{'task': '- x: #y', 'schedule': 5, 'kwargs': {kwargs!r}}}}}")
    (draft,) = read_jobs(text)
    assert (draft.name, draft.target, draft.parameters) == ("true", "- x: #y", kwargs)
    assert yaml.safe_load(text)["defaults"]["kind"] == "celery"


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        ("close-of-day", "close-of-day"),
        ("proj.tasks.add(2, 3)", "proj.tasks.add-2-3"),
        ("Müll  abholen!", "mull-abholen"),
        ("__x__", "x"),
        ("a..-b", "a.b"),
    ],
)
def test_names_follow_from_names(entry: str, name: str) -> None:
    assert job_name(entry) == name


def test_a_name_that_is_too_long_is_refused_and_not_cut() -> None:
    with pytest.raises(BadInput, match="No job can be called"):
        job_name("x" * 65)


def test_what_names_no_app_is_refused() -> None:
    with pytest.raises(BadInput, match="names no app"):
        import_beat("proj", "ops")
