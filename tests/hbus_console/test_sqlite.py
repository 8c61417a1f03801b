"""SQLite as the settings tune it: six writers at once, and none of them ever meets a locked database."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hbus_console.state import ROOT

WRITERS = 6
TRANSACTIONS = 300
# Read, then write what was read: the order that fails under SQLite's default, deferred transactions.
_WRITER = """
import sys
import django
django.setup()
from django.db import OperationalError, connection, transaction
failed = 0
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[2])):
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT coalesce(max(n), 0) FROM line")
            (last,) = cursor.fetchone()
            cursor.execute("INSERT INTO line (n, writer) VALUES (%s, %s)", [last + 1, int(sys.argv[1])])
    except OperationalError as error:
        failed += 1
        print(error, file=sys.stderr)
raise SystemExit(1 if failed else 0)
"""


def _environment(state: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in {"DATABASE_URL", "LEDGER_DATABASE_URL"}}
    return {**kept, "STATE": str(state), "DJANGO_SETTINGS_MODULE": "hbus_console.settings", "PYTHONPATH": str(ROOT)}


@pytest.mark.xdist_group("busy")
def test_six_writers_never_meet_a_locked_database(tmp_path: Path) -> None:
    prepare = (
        "import django; django.setup(); from django.db import connection as c; "
        "c.cursor().execute('CREATE TABLE line (n INTEGER PRIMARY KEY, writer INTEGER)'); "
        "print(c.cursor().execute('PRAGMA journal_mode').fetchone()[0])"
    )
    environment = _environment(tmp_path)
    made = subprocess.run(
        [sys.executable, "-c", prepare], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert made.stdout.split() == ["wal"]
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(number), str(TRANSACTIONS)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(WRITERS)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        _, errors = writer.communicate(timeout=120)
        assert writer.returncode == 0, errors
    count = "import django; django.setup(); from django.db import connection as c; "
    count += "print(c.cursor().execute('SELECT count(*), max(n), count(DISTINCT writer) FROM line').fetchone())"
    counted = subprocess.run(
        [sys.executable, "-c", count], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert counted.stdout.strip() == f"({WRITERS * TRANSACTIONS}, {WRITERS * TRANSACTIONS}, {WRITERS})"
