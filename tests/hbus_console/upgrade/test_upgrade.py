"""An installation of the version before subjects is taken over: nothing is lost, and the audit chain still verifies.

``state.tar.xz`` holds what commit e19b897 left behind after forty bookings of the hotel example and some acts of
people: both databases as SQL, and the audit log's anchors. Its only secret is the key below.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.installation import RunningInstallation
from tests.postgres import RealPostgres, find_binaries

pytestmark = pytest.mark.xdist_group("installation")

_STATE = Path(__file__).parent / "state.tar.xz"
_KEYS = {"HBUS_AUDIT_KEY": "test-audit-key", "HBUS_SECRET_KEY": "test-secret-key"}
_DATABASES = ("hbus", "ledger")
#: What Django keeps of its own accord.
_FRAMEWORK = ("django_migrations", "django_content_type", "auth_permission", "sqlite_sequence")
#: Columns that got another name; of those that hold something else now (``None``) the content is asserted by itself.
_RENAMED: dict[str, dict[str, str | None]] = {
    "operations_operation": {"topic": "namespace"},
    "operations_operationitem": {
        "topic": "namespace",
        "message_id": None,
        "subscription": None,
        "new_message_id": None,
    },
    "alerts_alert": {"topic": "namespace", "subscription": "subject_name"},
    "alerts_silence": {"topic": "namespace", "subscription": "subject_name"},
    "alerts_rule": {"topics": "scope", "group": "pattern"},
    "alerts_evaluation": {"defaults_made": None},
}
#: What taking over adds: the rules of kinds that version did not have, and the entries that tell them.
_NEW_RULES = (
    "Nobody serves a subscription",
    "Due messages are refused",
    "A job fails",
    "A job runs late",
    "A job does not run",
    "A quota node is cut off",
    "A limit refuses much",
    "An audit finds something wrong",
    "What NSQ carried is not archived",
    "The disk of the spool runs short",
)
_ADDED = {"alerts_rule": len(_NEW_RULES), "audit_auditentry": len(_NEW_RULES)}
_ENTRIES = 73 + len(_NEW_RULES)
_PROBE = """
import json
from django.db import connection
from hbus_console.alerts.models import Alert, Rule, Silence
from hbus_console.audit import guards
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.services import content
from hbus_console.audit.state import last_verified, verify_now
from hbus_console.operations.models import Operation, OperationItem

before = last_verified()
verdict = verify_now(full=True)
print(json.dumps({
    "verified_before": before and before.seq,
    "verdict": verdict.as_dict(),
    "guards": sorted(guards.expected(connection) - guards.installed(connection)),
    "entries": {entry.seq: str(entry.subject) for entry in AuditEntry.objects.all()},
    "operations": {row.pk: str(row.subject) for row in Operation.objects.all()},
    "items": {
        row.pk: [str(row.subject), str(row.made or ""), row.facets] for row in OperationItem.objects.all()
    },
    "alerts": {row.pk: str(row.subject) for row in Alert.objects.all()},
    "silences": {row.pk: str(row.subject) for row in Silence.objects.all()},
    "rules": [rule.name for rule in Rule.objects.order_by("pk")],
}))
"""


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state folder as that version left it."""
    state = tmp_path_factory.mktemp("old")
    with tarfile.open(_STATE) as packed:
        packed.extractall(state, filter="data")
    for name in _DATABASES:
        _make(state / f"{name}.sqlite3", (state / f"{name}.sql").read_text(encoding="utf-8"))
    shutil.copy(state / "hbus.sqlite3", state / "was.sqlite3")
    return state


def _make(path: Path, script: str) -> None:
    database = sqlite3.connect(path)
    database.executescript(script)
    database.close()


def _rows(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table that is not the framework's own."""
    database = sqlite3.connect(path)
    database.row_factory = sqlite3.Row
    names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    found = {
        name: [dict(row) for row in database.execute(f'SELECT * FROM "{name}" ORDER BY 1')]
        for name in names
        if name not in _FRAMEWORK
    }
    database.close()
    return found


#: Brings an empty PostgreSQL to the tables that version had, and its rows into them.
_FILL = """
import json, os
from pathlib import Path
from django.db import connection, transaction
from django.db.migrations.executor import MigrationExecutor

given = json.loads(Path(os.environ["HBUS_TEST_ROWS"]).read_text())
executor = MigrationExecutor(connection)
executor.migrate([tuple(each) for each in given["migrations"] if tuple(each) in executor.loader.graph.nodes])
CASTS = {"jsonb": "%s::jsonb", "boolean": "%s::int::boolean", "bytea": "decode(%s, 'hex')"}
with transaction.atomic(), connection.cursor() as cursor:
    for table, rows in given["tables"].items():
        cursor.execute("SELECT column_name, data_type FROM information_schema.columns WHERE table_name = %s", [table])
        types = dict(cursor.fetchall())
        for row in rows:
            names = ", ".join(f'"{name}"' for name in row)
            values = ", ".join(CASTS.get(types[name], "%s") for name in row)
            cursor.execute(f'INSERT INTO "{table}" ({names}) VALUES ({values})', list(row.values()))
        if types.get("id") in ("integer", "bigint"):
            sequence = f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), max(id)) FROM {table}"
            cursor.execute(sequence)
"""


@pytest.fixture(scope="module")
def before(old: Path) -> dict[str, dict[str, list[dict[str, Any]]]]:
    return {name: _rows(old / f"{name}.sqlite3") for name in _DATABASES}


@pytest.fixture(scope="module")
def taken_over(old: Path, before: dict[str, Any], redis_url: str) -> tuple[RunningInstallation, dict[str, Any]]:
    """The same folder after this version prepared it, and what this version says of its rows."""
    installation = RunningInstallation(old, more={**_KEYS, "REDIS_URL": redis_url})
    prepared = installation.manage("prepare", timeout_s=120)
    assert prepared.returncode == 0, prepared.stderr
    probed = installation.manage("shell", "--no-imports", "-c", _PROBE)
    assert probed.returncode == 0, probed.stderr
    return installation, json.loads(probed.stdout)


@pytest.mark.parametrize("database", _DATABASES)
def test_every_row_is_still_there_with_what_it_held(
    old: Path, before: dict[str, Any], taken_over: object, database: str
) -> None:
    after = _rows(old / f"{database}.sqlite3")
    for table, rows in before[database].items():
        assert len(after[table]) == len(rows) + _ADDED.get(table, 0), table
        names = _RENAMED.get(table, {})
        for was, now in zip(rows, after[table], strict=False):
            for column, value in was.items():
                if (name := names.get(column, column)) is not None:
                    assert now[name] == value, (table, column)
    assert sum(len(rows) for rows in before["hbus"].values()) == 373
    assert sum(len(rows) for rows in before["ledger"].values()) > 500


def test_the_audit_chain_holds_and_no_entry_was_touched(before: dict[str, Any], taken_over: Any, old: Path) -> None:
    _, found = taken_over
    assert found["verdict"]["holds"], found["verdict"]["findings"]
    assert (found["verdict"]["entries"], found["verdict"]["anchors"]) == (_ENTRIES, 7)
    assert found["verified_before"] == 73
    assert found["guards"] == [], "the guards against change stand"
    assert _rows(old / "hbus.sqlite3")["audit_auditentry"][:73] == before["hbus"]["audit_auditentry"]


def test_every_entry_says_what_it_is_about(taken_over: Any) -> None:
    _, found = taken_over
    entries = found["entries"]
    told = {
        1: "alert-rule:/Dead letters wait for a decision",
        10: "user:/admin",
        11: "team:/Reservations",
        14: "topic:booking.created",
        15: "topic:booking.created",
        24: "subscription:booking.cancelled/availability",
        38: "token:/anna/ci",
        42: "topic:booking.created",
        43: "installation:/hbus",
        44: "namespace:booking",
        45: "alert-rule:booking/Dead bookings",
        47: "alert-channel:/mailbox",
        49: "alert:booking.cancelled/2",
        50: "alert-target:booking.cancelled/partner-sync on booking.cancelled",
        51: "message:booking.created/simulated-1-40-000028-created",
        54: "operation:/1",
        57: "operation:booking.cancelled/2",
        62: "user:/(no such account)",
        65: "worker:booking.created/all",
        66: "worker:/all",
        67: "partner-room:booking.cancelled/L",
        68: "audit:/audit log",
        72: "topic:booking.cancelled",
        **{seq: f"alert-rule:/{name}" for seq, name in enumerate(_NEW_RULES, 74)},
    }
    assert {seq: entries[str(seq)] for seq in told} == told
    assert len(entries) == _ENTRIES


def test_every_operation_and_each_of_its_results_has_its_subject(before: dict[str, Any], taken_over: Any) -> None:
    _, found = taken_over
    for row in before["hbus"]["operations_operation"]:
        assert found["operations"][str(row["id"])] == f"operation:{row['topic']}/{row['id']}"
    for row in before["hbus"]["operations_operationitem"]:
        subject, made, facets = found["items"][str(row["id"])]
        topic, group = row["topic"], row["subscription"]
        if not row["message_id"]:
            assert (subject, made, facets) == (f"subscription:{topic}/{group}", "", {})
            continue
        copy = f"message:{topic}/{row['new_message_id']}" if row["new_message_id"] else ""
        assert (subject, made, facets) == (f"message:{topic}/{row['message_id']}", copy, {"subscription": group})
    kinds = {row["kind"] for row in before["hbus"]["operations_operation"]}
    assert kinds == {"redrive", "discard", "replay", "move"}


def test_the_alerts_and_silences_have_theirs(before: dict[str, Any], taken_over: Any) -> None:
    _, found = taken_over
    for name in ("alert", "silence"):
        assert found[f"{name}s"] == {
            str(row["id"]): f"subscription:{row['topic']}/{row['subscription']}"
            for row in before["hbus"][f"alerts_{name}"]
        }
    names = [row["name"] for row in before["hbus"]["alerts_rule"]]
    assert found["rules"] == [*names, *_NEW_RULES], "the rules of a first start are not made again"


@pytest.fixture(scope="module")
def on_postgresql(
    old: Path, before: dict[str, Any], redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Any]]:
    """The same rows on a PostgreSQL that was prepared by this version."""
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("PostgreSQL's server is not installed (Debian: apt install postgresql)")
    state = tmp_path_factory.mktemp("old-postgresql")
    with tarfile.open(_STATE) as packed:
        packed.extractall(state, filter="data")
    tables = {name: rows for database in before.values() for name, rows in database.items() if rows}
    applied = sqlite3.connect(old / "was.sqlite3").execute("SELECT app, name FROM django_migrations").fetchall()
    rows = state / "rows.json"
    rows.write_text(json.dumps({"migrations": applied, "tables": tables}, default=bytes.hex), encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="hbus-postgres-") as folder:
        Path(folder).chmod(0o755)
        server = RealPostgres(Path(folder) / "server", binaries).start()
        # Another installation than the one on SQLite: what the store knows of that one's audit log is not about this.
        own = {"REDIS_URL": redis_url, "HBUS_PREFIX": "hbus-postgresql"}
        more = {**_KEYS, **own, "DATABASE_URL": server.url, "HBUS_TEST_ROWS": str(rows)}
        installation = RunningInstallation(state, more=more)
        try:
            for arguments in (("shell", "--no-imports", "-c", _FILL), ("prepare",)):
                done = installation.manage(*arguments, timeout_s=120)
                assert done.returncode == 0, done.stderr
            probed = installation.manage("shell", "--no-imports", "-c", _PROBE)
            assert probed.returncode == 0, probed.stderr
            yield json.loads(probed.stdout)
        finally:
            server.stop()


def test_on_postgresql_it_comes_out_the_same(taken_over: Any, on_postgresql: dict[str, Any]) -> None:
    _, found = taken_over
    assert on_postgresql["verdict"]["holds"], on_postgresql["verdict"]["findings"]
    for name in ("entries", "operations", "items", "alerts", "silences", "rules", "guards", "verified_before"):
        assert on_postgresql[name] == found[name], name


def test_the_chain_goes_on_from_there(taken_over: Any) -> None:
    installation, _ = taken_over
    exported = installation.manage("audit", "export", "--as", "jsonl", "--reason", "the first act of this version")
    assert exported.returncode == 0, exported.stderr
    lines = [json.loads(line) for line in exported.stdout.splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, _ENTRIES + 1))
    assert (lines[44]["target_type"], lines[44]["topic"]) == ("alert_rule", "booking.*"), "as it was hashed"
    verified = json.loads(installation.manage("audit", "verify", "--json").stdout)
    assert verified["findings"] == []
    assert (verified["holds"], verified["entries"]) == (True, _ENTRIES + 1)


def test_the_anchors_go_on_under_keyed_hashes_that_cover_what_stood_there(taken_over: Any, old: Path) -> None:
    """The last of these: that an anchor was changed is an alarm until a person begins them anew."""
    path = old / "audit" / "anchors.jsonl"
    whole = path.read_bytes()
    lines = [json.loads(line) for line in whole.splitlines()]
    first = next(number for number, line in enumerate(lines) if "mac" in line)
    assert first == 6
    assert all("mac" in line for line in lines[first:])
    try:
        path.write_bytes(whole.replace(b'"at"', b'"at" ', 1))
        installation, _ = taken_over
        said = installation.manage("audit", "verify")
        assert said.returncode == 1
        assert "What stood in the anchor file before the anchor of entry 73 was changed." in said.stdout
    finally:
        path.write_bytes(whole)
