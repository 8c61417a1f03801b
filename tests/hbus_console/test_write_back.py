"""SQLite's log goes back into the database when it is told to, and in nobody's transaction."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.db.utils import ConnectionHandler, OperationalError

from hbus_console.database import put_off_write_back, write_back
from hbus_console.jobs.scheduling import role
from hbus_console.settings import SQLITE_OPTIONS

#: Only so that there is a database at all.
pytestmark = pytest.mark.django_db


@pytest.fixture
def putting_off() -> Iterator[None]:
    receivers = list(connection_created.receivers)
    put_off_write_back()
    yield
    connection_created.receivers = receivers


@pytest.fixture
def database(tmp_path: Path) -> Iterator[BaseDatabaseWrapper]:
    options = {"ENGINE": "django.db.backends.sqlite3", "NAME": tmp_path / "one.sqlite3", "OPTIONS": SQLITE_OPTIONS}
    opened = ConnectionHandler({"default": options})["default"]
    yield opened
    opened.close()


def written(database: BaseDatabaseWrapper) -> int:
    """Four times as much as makes SQLite write its log back; the size of the database afterwards, in bytes."""
    with database.cursor() as cursor:
        cursor.execute("CREATE TABLE t (x)")
        for _ in range(4):
            cursor.execute("INSERT INTO t VALUES (zeroblob(4096000))")
    return Path(database.settings_dict["NAME"]).stat().st_size


def test_a_transaction_that_makes_the_log_long_writes_it_back_by_itself(database: BaseDatabaseWrapper) -> None:
    assert written(database) > 4_096_000


@pytest.mark.usefixtures("putting_off")
def test_once_put_off_it_waits_until_somebody_has_time(database: BaseDatabaseWrapper) -> None:
    assert written(database) < 100_000
    write_back(database)
    assert Path(database.settings_dict["NAME"]).stat().st_size > 4 * 4_096_000


def test_who_sweeps_goes_on_where_the_log_cannot_be_written_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A sweeper that ended would leave lost runs lost, and say nothing."""
    asked: list[bool] = []

    def full() -> None:
        asked.append(True)
        raise OperationalError("disk I/O error")

    monkeypatch.setattr(role, "write_back", full)
    assert role.swept(lambda: 1.5) == 1.5
    assert asked == [True]
