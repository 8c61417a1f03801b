"""Pings as they come: over HTTP to a web role, beside a cron node that decides slots and misses what is silent."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hbus_console.jobs.installed import shell, until
from tests.installation import RunningInstallation

pytestmark = [pytest.mark.xdist_group("installation"), pytest.mark.long]

_MAKE = """
from hbus_console.access.permissions import SYSTEM
from hbus_console.jobs.models import PingAddress
from hbus_console.jobs.services.draft import JobDraft
from hbus_console.jobs.services.jobs import create_job
from hbus_console.teams.models import Team
Team.objects.create(name="ops", contact="#ops")
create_job(SYSTEM, JobDraft("heard", "ops", "elsewhere", "db1", "* * * * * *", grace_s=86_400))
create_job(SYSTEM, JobDraft("silent", "ops", "elsewhere", "db2", "@every 2s", grace_s=1))
print(PingAddress.objects.get(job__name="heard").code)
"""


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory, prepared: Path) -> Iterator[RunningInstallation]:
    made = RunningInstallation(tmp_path_factory.mktemp("pings") / "state", "web,cron", template=prepared)
    try:
        yield made.start()
    finally:
        made.end()


def pinged(address: str, body: bytes | None = None) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, data=body), timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def test_pings_are_booked_with_what_they_send_and_silence_is_missed(installation: RunningInstallation) -> None:
    code = shell(installation, _MAKE).split()[-1]
    address = f"{installation.url}/ping/{code}"
    rid = "0189d8a0-0000-4000-8000-000000000001"
    # A long one is read to its end: a client that is answered before takes that for an error.
    body = b"a line of a long log\n" * 100_000
    until(installation, lambda runs: any(run["job"] == "heard" for run in runs))
    assert pinged(f"{address}/start?rid={rid}") == (200, "OK")
    assert pinged(f"{address}/0?rid={rid}", body) == (200, "OK")
    assert pinged(f"{installation.url}/ping/hbp_{'a' * 32}", b"x" * 1_000)[0] == 404
    assert pinged(f"{address}/nothing")[0] == 404
    found = until(installation, lambda runs: any(run["state"] == "abandoned" for run in runs))
    (done,) = [run for run in found if run["state"] == "done"]
    assert (done["job"], done["kind"]) == ("heard", "schedule"), done["why"]
    assert "exit code 0 from 127.0.0.1\na line of a long log\n" in done["log"]
    assert done["log"].endswith(f"… the rest was cut: of {len(body):,} bytes the first 65,536 bytes are kept\n")
    assert {run["job"] for run in found if run["state"] == "abandoned"} == {"silent"}
    slots = [(run["job"], run["slot"]) for run in found if run["kind"] == "schedule"]
    assert len(slots) == len(set(slots))
    assert code not in installation.output()
