"""However a process is started, what it counts is on the page of the web role, also once it has ended."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hbus_console.metric_files import VARIABLE, share

ROOT = Path(__file__).parents[2]
COUNT = (
    "from hbus_console import metrics\n"
    "from engine.bus.facts import Fact, batches\n"
    "metrics.count(batches([Fact('published', 1, topic='t')] * 3))\n"
)
GAUGE = (
    "from hbus_console.messages.models import LagSample\n"
    "from hbus_console.traffic.metrics import show_lag\n"
    "show_lag([LagSample(at_ms=1, topic='t', subscription='g', waiting={waiting}, in_flight=0, retrying=0)], 1)\n"
)
DIE = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)\n"
ASK = (
    "from hbus_console.asgi import application\n"
    "from django.test import Client\n"
    "print(Client(headers={'host': 'localhost'}).get('/metrics').content.decode())"
)


def environment(state: Path) -> dict[str, str]:
    known = {name: value for name, value in os.environ.items() if name != "PROMETHEUS_MULTIPROC_DIR"}
    return {**known, "STATE": str(state), "DJANGO_SETTINGS_MODULE": "hbus_console.settings", "PYTHONPATH": str(ROOT)}


def shell(state: Path, code: str) -> int:
    """An operator's shell; its exit code."""
    command = [sys.executable, str(ROOT / "manage.py"), "shell", "--no-imports", "--command", code]
    return subprocess.run(command, env=environment(state), check=False, capture_output=True).returncode


def page(state: Path) -> str:
    """What the web role answers, started by any server of ASGI."""
    asked = subprocess.run(
        [sys.executable, "-c", ASK], env=environment(state), check=True, capture_output=True, text=True
    )
    return asked.stdout


@pytest.fixture
def state(tmp_path: Path) -> Path:
    made = tmp_path / "state"
    made.mkdir()
    # Commands refuse to work on no installation; none of these looks into its database.
    (made / "hbus.sqlite3").touch()
    return made


def test_processes_that_nobody_supervises_count_together_and_leave_no_files(state: Path) -> None:
    assert [shell(state, COUNT + GAUGE.format(waiting=waiting)) for waiting in (7, 5)] == [0, 0]
    told = page(state)
    assert 'hbus_published_total{topic="t"} 6.0' in told
    assert 'hbus_unsettled_messages{subscription="g",topic="t"} 5.0' in told
    left = {each.name for each in (state / "metrics").glob("*.db")}
    assert left <= {"counter_0.db", "histogram_0.db", "gauge_mostrecent_0.db"}


def test_what_a_killed_process_counted_stays(state: Path) -> None:
    assert shell(state, COUNT + DIE) == -signal.SIGKILL
    assert shell(state, COUNT) == 0
    assert 'hbus_published_total{topic="t"} 6.0' in page(state)


def test_where_there_is_no_installation_nothing_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    share(tmp_path / "nowhere" / "metrics")
    assert list(tmp_path.iterdir()) == []
    assert VARIABLE not in os.environ


def test_the_worker_counts_there_too(state: Path) -> None:
    code = "import hbus_console.celery, django; django.setup()\n" + COUNT
    subprocess.run([sys.executable, "-c", code], env=environment(state), check=True, capture_output=True)
    assert 'hbus_published_total{topic="t"} 3.0' in page(state)


@pytest.mark.parametrize("before", ["", "import prometheus_client\n"], ids=["plain", "one that counts itself"])
def test_a_program_that_sets_django_up_counts_there_too(state: Path, before: str) -> None:
    code = f"{before}import django\ndjango.setup()\n{COUNT}"
    for _ in range(2):
        subprocess.run([sys.executable, "-c", code], env=environment(state), check=True, capture_output=True)
    assert 'hbus_published_total{topic="t"} 6.0' in page(state)


def test_what_measures_counts_nothing_of_the_installation(state: Path) -> None:
    command = [sys.executable, str(ROOT / "manage.py"), "bench", "--help"]
    subprocess.run(command, env=environment(state), check=True, capture_output=True)
    assert not (state / "metrics").exists()


#: As many labels as do not fit the file that a process begins with.
MANY = (
    "from hbus_console import metrics\n"
    "from engine.bus.facts import Fact, batches\n"
    "metrics.count(batches([Fact('published', 1, topic=f't{n}') for n in range(1500)]))\n"
    "metrics.count(batches([Fact('published', 1, topic='t0')]))\n"
    "from hbus_console.metrics import _counters\n"
    "print(int(_counters()['published'].counter.labels('t0')._value.get()), 'lived on')\n"
)


def full(state: Path, code: str, room: int) -> subprocess.CompletedProcess[str]:
    """A shell for whose files there is no more ``room``."""
    command = [sys.executable, str(ROOT / "manage.py"), "shell", "--no-imports", "--command", code]
    return subprocess.run(
        command,
        env=environment(state),
        check=False,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, room)),
    )


@pytest.mark.parametrize("room", [4_096, 1 << 16])
def test_who_has_no_room_to_count_in_says_so_and_lives_on(state: Path, room: int) -> None:
    """Neither when a file is made, nor when it grows."""
    ended = full(state, MANY, room)
    assert (ended.returncode, ended.stdout.strip()) == (0, "2 lived on"), ended.stderr
    assert "there is no room for" in ended.stderr
    # And nobody who reads what is there is led astray.
    assert shell(state, COUNT) == 0
    assert 'hbus_published_total{topic="t"} 3.0' in page(state)


def test_a_file_that_grows_has_all_of_its_room_on_the_disk(state: Path) -> None:
    """A write into a hole, where the disk is full, would be the process's end."""
    code = MANY + "import pathlib, os\nfor each in pathlib.Path(os.environ['PROMETHEUS_MULTIPROC_DIR']).glob('*.db'):\n"
    code += "    at = each.stat(); assert at.st_blocks * 512 >= at.st_size >= 1 << 16, each\n"
    assert shell(state, code) == 0
    assert 'hbus_published_total{topic="t0"} 2.0' in page(state)
