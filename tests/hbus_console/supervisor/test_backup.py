"""A backup that is made while others write, and the installation that comes of it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from hbus_console.state import ROOT
from tests.installation import RunningInstallation
from tests.postgres import RealPostgres, find_binaries

pytestmark = pytest.mark.xdist_group("installation")

#: Acts as fast as it can, and says each once it is committed.
_WRITER = """
from django.db import transaction
from engine.core.subject import Subject
from hbus_console.access.permissions import SYSTEM
from hbus_console.audit.services import record
while True:
    with transaction.atomic():
        entry = record(SYSTEM, "topic.pause", Subject("topic", "booking.created"), reason="x" * 500)
    print(entry.seq, flush=True)
"""


@pytest.fixture
def source(prepared: Path, tmp_path: Path) -> RunningInstallation:
    state = tmp_path / "source"
    shutil.copytree(prepared, state)
    return RunningInstallation(state)


@pytest.fixture
def target(tmp_path: Path) -> Iterator[RunningInstallation]:
    made = RunningInstallation(tmp_path / "target")
    yield made
    made.end()


def test_a_backup_under_writers_restores_to_an_installation_that_runs(
    source: RunningInstallation, target: RunningInstallation, tmp_path: Path
) -> None:
    archive = tmp_path / "backup.tar.gz"
    with subprocess.Popen(
        [sys.executable, "manage.py", "shell", "--no-imports", "-c", _WRITER],
        cwd=ROOT,
        env=source.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as writer:
        try:
            assert writer.stdout is not None
            committed = [int(writer.stdout.readline()) for _ in range(20)]
            made = source.manage("backup", "--to", str(archive), "--reason", "every night")
            assert made.returncode == 0, made.stderr
            (told,) = re.findall(r"with the audit log up to entry ([\d,]+)\.", made.stdout)
            newest = int(told.replace(",", ""))
            # Whoever was held up for good would never come to it.
            while int(writer.stdout.readline()) <= newest:
                pass
        finally:
            writer.kill()
    assert "IT HOLDS THE KEYS of this installation (mode 0600)" in made.stdout
    assert archive.stat().st_mode & 0o777 == 0o600

    done = target.manage("restore", str(archive))
    assert done.returncode == 0, done.stdout + done.stderr
    assert ": unbroken; " in done.stdout
    assert "The messages of the store are not in a backup" in done.stdout
    keys = sorted(path.name for path in (source.state / "secrets").iterdir())
    assert {"audit", "django"} <= set(keys)
    for key in keys:
        assert (target.state / "secrets" / key).stat().st_mode & 0o777 == 0o600
        assert (target.state / "secrets" / key).read_bytes() == (source.state / "secrets" / key).read_bytes()
    again = target.manage("restore", str(archive))
    assert again.returncode == 2
    assert "is not empty, and nothing is written over" in again.stderr

    target.start()
    assert httpx.get(f"{target.url}/readyz").status_code == 200
    exported = target.manage("audit", "export", "--reason", "to see")
    entries = {line["seq"]: line for line in map(json.loads, exported.stdout.splitlines())}
    backup = next(line for line in entries.values() if line["action"] == "installation.backup")
    assert (backup["reason"], backup["after"]) == ("every night", {"file": "backup.tar.gz"})
    assert set(range(1, backup["seq"] + 1)) <= set(entries)
    assert committed[-1] < backup["seq"] <= newest, "every act that was committed before it is in it"
    assert newest in entries
    verified = json.loads(target.manage("audit", "verify", "--json").stdout)
    assert verified["holds"], verified["findings"]


def test_a_backup_of_postgresql_fills_an_empty_database(redis_url: str, tmp_path: Path) -> None:
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("PostgreSQL's server is not installed (Debian: apt install postgresql)")
    archive = tmp_path / "backup.tar.gz"
    with tempfile.TemporaryDirectory(prefix="hbus-postgres-") as folder:
        Path(folder).chmod(0o755)
        server = RealPostgres(Path(folder) / "server", binaries).start()
        try:
            more = {"DATABASE_URL": server.url, "REDIS_URL": redis_url, "HBUS_PREFIX": "backup"}
            source = RunningInstallation(tmp_path / "source", more=more)
            for words in (("prepare",), ("backup", "--to", str(archive))):
                done = source.manage(*words, timeout_s=120)
                assert done.returncode == 0, done.stderr
            again = RunningInstallation(tmp_path / "again", more=more).manage("restore", str(archive))
            assert again.returncode == 2
            assert "The database of DATABASE_URL is not empty, and nothing is written over" in again.stderr
            assert not (tmp_path / "again").exists()

            server.create("restored")
            url = server.url.rpartition("/")[0] + "/restored"
            target = RunningInstallation(tmp_path / "target", more={**more, "DATABASE_URL": url})
            done = target.manage("restore", str(archive), timeout_s=120)
            assert done.returncode == 0, done.stdout + done.stderr
            verified = json.loads(target.manage("audit", "verify", "--json").stdout)
            assert verified["holds"], verified["findings"]
        finally:
            server.stop()
