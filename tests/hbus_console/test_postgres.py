"""``DATABASE_URL`` leads to a real PostgreSQL: tables of both aliases, a first administrator, writes through each.

And what may wait for another's lock there, where SQLite's readers wait for nobody.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.installation import RunningInstallation
from tests.postgres import RealPostgres, find_binaries

pytestmark = pytest.mark.xdist_group("installation")

_WRITE = """
import json
from django.contrib.auth import get_user_model
from django.db import connections, transaction
from engine.core.subject import Subject
from hbus_console.access.permissions import SYSTEM
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.services import record
from hbus_console.messages.models import FlowSample

with transaction.atomic():
    record(SYSTEM, "topic.create", Subject("topic", "booking.created"), after={"owner": "bookings"})
FlowSample.objects.create(bucket_ms=10_000, topic="booking.created", published=3)
print(json.dumps({
    "vendors": [connections[alias].vendor for alias in connections],
    "tables": ["ledger_flowsample" in connections[alias].introspection.table_names() for alias in connections],
    "admins": get_user_model().objects.count(),
    "audited": AuditEntry.objects.filter(target="booking.created").count(),
    "samples": FlowSample.objects.get().published,
}))
"""

_WAIT = """
import json
from django.db import DatabaseError, connection, connections, transaction
from hbus_console.audit.models import AuditEntry
from hbus_console.database import is_away
from hbus_console.ui import live

found = {}

def wait():
    found["bound"] = bound()
    try:
        AuditEntry.objects.count()
    except DatabaseError as error:
        found["away"] = is_away(error)
    finally:
        connections.close_all()

def bound():
    with connection.cursor() as cursor:
        cursor.execute("SHOW statement_timeout")
        return cursor.fetchone()[0]

live.STATEMENT_S = 0.5
hub = live.Hub()
with transaction.atomic():
    with connection.cursor() as cursor:
        cursor.execute(f"LOCK TABLE {AuditEntry._meta.db_table} IN ACCESS EXCLUSIVE MODE")
    hub._thread.submit(wait).result(30)
connection.close()
print(json.dumps({**found, "others": bound()}))
"""


@pytest.fixture(scope="module")
def postgres() -> Iterator[RealPostgres]:
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("PostgreSQL's server is not installed (Debian: apt install postgresql)")
    # Not below pytest's own folder: that one is root's alone, and the server runs as another account.
    with tempfile.TemporaryDirectory(prefix="hbus-postgres-") as folder:
        Path(folder).chmod(0o755)
        server = RealPostgres(Path(folder) / "server", binaries).start()
        yield server
        server.stop()


@pytest.fixture
def installation(postgres: RealPostgres, tmp_path: Path, redis_url: str) -> RunningInstallation:
    return RunningInstallation(tmp_path / "state", more={"DATABASE_URL": postgres.url, "REDIS_URL": redis_url})


def test_one_database_serves_both_aliases(installation: RunningInstallation) -> None:
    prepared = installation.manage("prepare")
    assert prepared.returncode == 0, prepared.stderr
    assert "sign in as admin" in prepared.stdout
    again = installation.manage("prepare")
    assert (again.returncode, again.stdout) == (0, ""), "what is prepared is not prepared again"
    written = installation.manage("shell", "--no-imports", "-c", _WRITE)
    assert written.returncode == 0, written.stderr
    assert json.loads(written.stdout) == {
        "vendors": ["postgresql", "postgresql"],
        "tables": [True, True],
        "admins": 1,
        "audited": 1,
        "samples": 3,
    }


def test_a_look_of_live_pages_waits_for_no_lock_for_ever(installation: RunningInstallation) -> None:
    assert installation.manage("prepare").returncode == 0
    told = installation.manage("shell", "--no-imports", "-c", _WAIT)
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout) == {"bound": "500ms", "away": True, "others": "0"}
