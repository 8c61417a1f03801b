"""The one command, as a person types it: real processes, a real store, a real port."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from hbus_console.supervisor.standalone import StandaloneStore
from tests.installation import RunningInstallation

pytestmark = [pytest.mark.chaos, pytest.mark.xdist_group("installation")]

MB = 1024**2
#: Resident, of all roles but those of jobs with a small demonstration done, of the supervisor alone, and of the roles
#: of jobs, of whose processes each counts what all of them share.
REST_MEMORY, SUPERVISOR_MEMORY, JOBS_MEMORY = 380 * MB, 40 * MB, 290 * MB
PASSWORD = re.compile(r"password\s+(\S+)")


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningInstallation]:
    """One installation with all its roles, for the tests that only look at it."""
    installation = RunningInstallation(tmp_path_factory.mktemp("up") / "state").start()
    yield installation
    installation.end()


@pytest.fixture
def small(tmp_path: Path, prepared: Path) -> Iterator[RunningInstallation]:
    """An installation of store and web alone, to be ill-treated; it has been started before."""
    installation = RunningInstallation(tmp_path / "state", roles="web", template=prepared)
    yield installation
    installation.end()


def _answers(url: str) -> int:
    with urllib.request.urlopen(url, timeout=5) as response:
        return int(response.status)


def _gone(processes: list[psutil.Process], within_s: float) -> bool:
    _, alive = psutil.wait_procs(processes, timeout=within_s)
    return all(process.status() == psutil.STATUS_ZOMBIE for process in alive if process.is_running())


def test_every_role_becomes_ready_and_the_console_answers(started: RunningInstallation) -> None:
    status = started.status()
    assert status["healthy"]
    assert {line["role"]: line["state"] for line in status["lines"]} == {
        "supervisor": "ready",
        "store": "ready",
        "web": "ready",
        "consumer": "ready",
        "keeper": "ready",
        "cron": "ready",
        "jobs": "ready",
    }
    assert started.role("web")["address"] == started.url
    assert _answers(f"{started.url}/readyz") == 200
    assert f"The console: {started.url}" in started.output()


def _of_jobs(status: dict[str, Any]) -> int:
    return sum(line["memory"] for line in status["lines"] if line["role"] in ("cron", "jobs"))


def test_all_roles_together_stay_small_at_rest(started: RunningInstallation) -> None:
    demonstrated = started.manage("hotel_demo", "--limit", "100", "--fast", timeout_s=180)
    assert demonstrated.returncode == 0, demonstrated.stdout + demonstrated.stderr
    # Runs that are under way count with the role that does them: at rest is between two.
    deadline = time.monotonic() + 60
    while _of_jobs(status := started.status()) >= JOBS_MEMORY and time.monotonic() < deadline:
        time.sleep(0.5)
    for line in status["lines"]:
        shared = psutil.Process(line["pid"]).memory_full_info().pss if psutil.LINUX else 0
        print(f"{line['role']:<12} {line['memory'] / MB:6.1f} MB resident, {shared / MB:6.1f} MB by share")
    print(f"{'in all':<12} {status['memory'] / MB:6.1f} MB resident")
    jobs = _of_jobs(status)
    assert 50 * MB < status["memory"] - jobs < REST_MEMORY
    assert 50 * MB < jobs < JOBS_MEMORY
    assert started.role("supervisor")["memory"] < SUPERVISOR_MEMORY


def test_status_prints_a_table_and_exits_0(started: RunningInstallation) -> None:
    shown = started.manage("status")
    assert shown.returncode == 0
    heading, *rows = shown.stdout.splitlines()
    assert heading.split()[:3] == ["role", "pid", "state"]
    assert [row.split()[0] for row in rows[:5]] == ["supervisor", "store", "web", "consumer", "keeper"]
    assert started.url in rows[-1]


def test_a_password_is_shown_once_and_stands_in_no_file(started: RunningInstallation) -> None:
    (password,) = PASSWORD.findall(started.output())
    holding = [
        path
        for path in started.state.rglob("*")
        if path.is_file() and path.name != "up.out" and password.encode() in path.read_bytes()
    ]
    assert holding == []


def test_the_store_s_password_is_in_no_output_and_no_log(started: RunningInstallation) -> None:
    secret = (started.state / "secrets" / "store").read_text()
    assert secret not in started.output()
    assert secret not in started.manage("status", "--json").stdout
    for log in (started.state / "logs").iterdir():
        assert secret not in log.read_text(errors="replace")


def test_a_second_start_on_the_same_state_is_refused_in_one_line(started: RunningInstallation) -> None:
    second = started.manage("up")
    assert second.returncode == 2
    assert second.stdout == ""
    assert second.stderr.count("\n") == 1
    assert f"already running on {started.state}" in second.stderr


def test_a_taken_port_is_refused_in_one_line(started: RunningInstallation, tmp_path: Path) -> None:
    other = RunningInstallation(tmp_path / "other", port=started.port).manage("up")
    assert other.returncode == 2
    assert other.stderr.count("\n") == 1
    assert f"Port {started.port}" in other.stderr


def test_other_commands_find_the_embedded_store_by_themselves(started: RunningInstallation) -> None:
    found = started.manage("shell", "-c", "from hbus_console.wiring import store; print(store.client().ping())")
    assert found.stdout.strip().endswith("True"), found.stderr


def test_later_starts_are_quick_and_say_no_password(tmp_path: Path) -> None:
    installation = RunningInstallation(tmp_path / "state", roles="web").start()
    try:
        assert PASSWORD.search(installation.output())
        installation.stop()
        begun = time.monotonic()
        installation.start()
        # Ten seconds on a quiet machine; here others work at the same time.
        assert time.monotonic() - begun < 20
        assert not PASSWORD.search(installation.output())
        assert "Preparing" not in installation.output()
    finally:
        installation.end()


def test_a_killed_role_comes_back(small: RunningInstallation) -> None:
    small.start()
    before = small.role("web")["pid"]
    os.kill(before, signal.SIGKILL)
    deadline = time.monotonic() + 120
    while (now := small.role("web"))["pid"] in {0, before} or now["state"] != "ready":
        assert time.monotonic() < deadline, small.output()
    assert now["restarts"] == 1
    assert now["last_error"] == "killed by SIGKILL"
    assert _answers(f"{small.url}/readyz") == 200


def test_a_killed_store_comes_back_on_its_port_with_its_data(small: RunningInstallation) -> None:
    small.start()
    before = small.role("store")
    small.manage(
        "shell",
        "-c",
        "from hbus_console.wiring.store import client; client().set('kept', 1); client().waitaof(1, 0, 0)",
    )
    os.kill(before["pid"], signal.SIGKILL)
    deadline = time.monotonic() + 120
    while small.role("store")["pid"] in {0, before["pid"]} or not small.status()["healthy"]:
        assert time.monotonic() < deadline, small.output()
    assert small.role("store")["address"] == before["address"]
    kept = small.manage("shell", "-c", "from hbus_console.wiring import store; print(store.client().get('kept'))")
    assert "b'1'" in kept.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_everything_in_five_seconds_even_with_an_open_connection(
    tmp_path: Path, prepared: Path, number: signal.Signals
) -> None:
    installation = RunningInstallation(tmp_path / "state", template=prepared).start()
    try:
        with urllib.request.urlopen(f"{installation.url}/healthz", timeout=5):
            family = installation.family()
            assert len(family) >= 4
            assert installation.stop(number) < 5
        assert installation.process is not None
        assert installation.process.returncode == 0
        assert _gone(family, 0.1)
        stopped = installation.manage("status")
        assert stopped.returncode == 1
        assert "stopped" in stopped.stdout
    finally:
        installation.end()


def test_a_killed_supervisor_leaves_no_orphan_and_can_be_started_again(tmp_path: Path, prepared: Path) -> None:
    installation = RunningInstallation(tmp_path / "state", template=prepared).start()
    try:
        family = installation.family()
        assert len(family) >= 4
        assert installation.process is not None
        installation.process.kill()
        installation.process.wait()
        assert _gone(family, 8), [process for process in family if process.is_running()]
        installation.start()
        assert installation.status()["healthy"]
    finally:
        installation.end()


def test_a_stopped_role_is_an_exit_code_of_status(small: RunningInstallation) -> None:
    small.start()
    web = small.role("web")["pid"]
    os.kill(web, signal.SIGSTOP)
    try:
        deadline = time.monotonic() + 120
        while (shown := small.manage("status", "--json")).returncode == 0:
            assert time.monotonic() < deadline
    finally:
        os.kill(web, signal.SIGCONT)
    line = next(line for line in json.loads(shown.stdout)["lines"] if line["role"] == "web")
    assert line["state"] == "not ready"
    assert "does not answer" in line["last_error"]


def test_an_external_store_replaces_the_embedded_one(
    tmp_path: Path, prepared: Path, own_store: StandaloneStore
) -> None:
    more = {"REDIS_URL": own_store.url}
    installation = RunningInstallation(tmp_path / "state", roles="web", more=more, template=prepared).start()
    try:
        assert {line["role"] for line in installation.status()["lines"]} == {"supervisor", "web"}
        assert installation.status()["store"] == f"127.0.0.1:{own_store.port}"
        assert not (installation.state / "store").exists()
    finally:
        installation.end()


def test_an_evicting_store_is_refused_at_start(tmp_path: Path, own_store: StandaloneStore) -> None:
    import redis

    redis.Redis.from_url(own_store.url).config_set("maxmemory-policy", "allkeys-random")
    refused = RunningInstallation(tmp_path / "state", more={"REDIS_URL": own_store.url}).manage("up")
    _is_one_line(refused, "allkeys-random")


def test_an_unreachable_store_is_refused_at_start(tmp_path: Path, own_store: StandaloneStore) -> None:
    own_store.kill()
    refused = RunningInstallation(tmp_path / "state", more={"REDIS_URL": own_store.url}).manage("up")
    _is_one_line(refused, "does not answer")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("sqlite:////no/such/folder/db.sqlite3", "cannot be opened"),
        ("postgresql://hbus:word@127.0.0.1:1/hbus", "127.0.0.1:1/hbus cannot be opened"),
        ("oracel://x", "DATABASE_URL is not an address"),
    ],
)
def test_an_unreachable_database_is_refused_at_start(tmp_path: Path, url: str, words: str) -> None:
    refused = RunningInstallation(tmp_path / "state", more={"DATABASE_URL": url}).manage("up")
    _is_one_line(refused, words)
    assert ":word@" not in refused.stderr


def test_a_role_alone_asks_the_same_questions(tmp_path: Path, own_store: StandaloneStore) -> None:
    installation = RunningInstallation(tmp_path / "state", more={"REDIS_URL": own_store.url})
    _is_one_line(installation.manage("role", "web"), "manage.py prepare")
    assert installation.manage("prepare").returncode == 0
    own_store.kill()
    _is_one_line(installation.manage("role", "consumer"), "does not answer")


def test_an_unknown_role_is_refused(tmp_path: Path) -> None:
    _is_one_line(RunningInstallation(tmp_path / "state", roles="wep").manage("up"), "no role 'wep'")


def _is_one_line(refused: subprocess.CompletedProcess[str], words: str) -> None:
    assert refused.returncode == 2, refused.stderr
    assert refused.stdout == ""
    assert refused.stderr.count("\n") == 1, refused.stderr
    assert words in refused.stderr
