"""The same promises on a real PostgreSQL: guards, hashes that survive jsonb, writers that queue."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.installation import RunningInstallation
from tests.postgres import RealPostgres, find_binaries

pytestmark = pytest.mark.xdist_group("installation")

_PROBE = """
import json, threading
from django.db import DatabaseError, connection, transaction
from engine.core.subject import Subject
from hbus_console.access.permissions import SYSTEM
from hbus_console.audit import guards
from hbus_console.audit.anchor import anchor_head
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.services import record
from hbus_console.audit.state import verify_now
from hbus_console.subjects import readable
from hbus_console.access.scopes import scopes_q
from hbus_console.audit.trail import Filter, narrowed

ODD = {"big": 1e20, "huge": 1.5e300, "zero": -0.0, "whole": 2.0, "part": 0.1, "small": 1e-7, "nan": float("nan"),
       "nul": "a\\x00b", "lone": "a\\udc80", "text": "\\u00fc\\u2713", "deep": [{"b": 1, "a": None}], "int": 2**80}
with transaction.atomic():
    record(SYSTEM, "x", readable("thing", "", "a\\x00b"), reason="c\\udcff", before=ODD, after={"a": [ODD]})

def write():
    for _ in range(20):
        with transaction.atomic():
            record(SYSTEM, "x", Subject("topic", "booking.created"), after={"a": 1})
    connection.close()

writers = [threading.Thread(target=write) for _ in range(4)]
[writer.start() for writer in writers]
[writer.join() for writer in writers]
anchor_head()
before = list(AuditEntry.objects.order_by("seq").values())

def refused(sql):
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(sql)
    except DatabaseError as error:
        return str(error).splitlines()[0]
    return "done"

table = guards.TABLE
refusals = [refused(sql) for sql in (
    f"UPDATE {table} SET reason = 'x' WHERE seq = 1",
    f"DELETE FROM {table} WHERE seq = 1",
    f"TRUNCATE {table}",
    f"INSERT INTO {table} SELECT * FROM {table} WHERE seq = 1 ON CONFLICT (seq) DO UPDATE SET reason = 'x'",
)]
same = before == list(AuditEntry.objects.order_by("seq").values())
first = verify_now(full=True)
found = narrowed(AuditEntry.objects.all(), Filter(q="\\u00fc\\u2713")).count()
scopes = ("booking.*", "b_oking.*", "BOOKING.*", "book.*")
scoped = [AuditEntry.objects.filter(scopes_q((scope,), "namespace")).count() for scope in scopes]
with connection.cursor() as cursor:
    cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
    cursor.execute(f"UPDATE {table} SET reason = 'x' WHERE seq = 5")
    cursor.execute(f"DELETE FROM {table} WHERE seq = 81")
    unguarded = sorted(guards.expected(connection) - guards.installed(connection))
second = verify_now(full=True)
with connection.cursor() as cursor:
    cursor.execute("SELECT indexname, indexdef FROM pg_indexes WHERE tablename = %s", [table])
    for name, made in [each for each in cursor.fetchall() if "UNIQUE" not in each[1]]:
        cursor.execute(f"DROP INDEX {name}")
        cursor.execute(f"{made} WHERE seq <> 7")
        cursor.execute("UPDATE pg_index SET indpred = NULL WHERE indexrelid = %s::regclass", [name])
connection.close()
with connection.cursor() as cursor:
    cursor.execute("SET enable_seqscan = off")
by_index = AuditEntry.objects.filter(target="booking.created", seq__lt=10).count()
third = verify_now(full=True)
print(json.dumps({
    "refusals": refusals, "same": same, "found": found, "scoped": scoped, "unguarded": unguarded,
    "first": first.as_dict(), "second": [[f["kind"], f["seq"]] for f in second.as_dict()["findings"]],
    "by_index": by_index,
    "hidden": sorted(f["what"] for f in third.as_dict()["findings"] if f["kind"] == "hidden"),
}))
"""


@pytest.fixture(scope="module")
def postgres() -> Iterator[RealPostgres]:
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("PostgreSQL's server is not installed (Debian: apt install postgresql)")
    with tempfile.TemporaryDirectory(prefix="hbus-postgres-") as folder:
        Path(folder).chmod(0o755)
        server = RealPostgres(Path(folder) / "server", binaries).start()
        yield server
        server.stop()


@pytest.fixture
def seen(postgres: RealPostgres, tmp_path: Path, redis_url: str) -> dict[str, Any]:
    installation = RunningInstallation(tmp_path / "state", more={"DATABASE_URL": postgres.url, "REDIS_URL": redis_url})
    migrated = installation.manage("migrate", "--verbosity=0")
    assert migrated.returncode == 0, migrated.stderr
    done = installation.manage("shell", "--no-imports", "-c", _PROBE)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_log_is_guarded_and_proved_on_postgresql(seen: dict[str, Any]) -> None:
    assert seen["refusals"] == ["audit entries cannot be changed or removed"] * 4
    assert seen["same"]
    assert seen["first"]["holds"], seen["first"]
    assert (seen["first"]["entries"], seen["first"]["anchors"]) == (81, 1)
    assert seen["found"] == 1
    assert seen["scoped"] == [80, 0, 0, 0]
    assert seen["unguarded"] == ["audit_refuse_change", "audit_refuse_truncate"]
    assert seen["second"] == [["unguarded", 0], ["altered", 5], ["truncated", 81]]
    assert seen["by_index"] == 7, "an entry that is there, and that no index leads to"
    names = ["action", "action_time", "actor", "auditentry_at_09f867ec", "target", "target_alone", "topic"]
    assert seen["hidden"] == [
        *(f"Entry 7 is hidden from lists: it is missing in audit_{name}." for name in names),
        "One of the entries 1 to 80 is hidden from lists: it is missing in audit_correlation.",
    ]
