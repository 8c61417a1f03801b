"""Logs reach the database in their order, bounded, also those of workers that were killed."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.db import OperationalError

from engine.cron.work.log_spool import LogSpool
from hbus_console.jobs.models import LogPiece
from hbus_console.jobs.working.shipping import LogShipper, ship_left_behind

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


def pieces(run: int = 7) -> list[tuple[int, int, str]]:
    return list(LogPiece.objects.filter(run=run).values_list("seq", "attempt", "text"))


def test_a_further_attempt_goes_on_behind_the_first(tmp_path: Path) -> None:
    for attempt in (1, 2):
        spool = LogSpool(tmp_path, 7, attempt)
        shipper = LogShipper(spool)
        spool.write(f"attempt {attempt}\nand")
        assert shipper.ship()
        spool.write(" more")
        shipper.finish()
    assert pieces() == [(1, 1, "attempt 1\n"), (2, 1, "and more"), (3, 2, "attempt 2\n"), (4, 2, "and more")]
    assert list(tmp_path.iterdir()) == []


def test_what_an_attempt_left_behind_is_shipped_while_the_next_one_writes(tmp_path: Path) -> None:
    """Its machine came back: both add to the log of the same run."""
    first, second = LogSpool(tmp_path, 7, 1), LogSpool(tmp_path, 7, 2)
    late, now = LogShipper(first), LogShipper(second)
    first.write("one\n")
    second.write("two\n")
    assert now.ship()
    assert late.ship()
    second.write("two still\n")
    assert now.ship()
    first.write("one still\n")
    late.finish()
    now.finish()
    said = [(attempt, text) for _, attempt, text in pieces()]
    assert said == [(2, "two\n"), (1, "one\n"), (2, "two still\n"), (1, "one still\n")]


def test_an_attempt_whose_worker_was_killed_is_shipped_from_where_that_was(tmp_path: Path) -> None:
    killed, other = LogSpool(tmp_path, 7, 1), LogSpool(tmp_path, 7, 2)
    killed.write("one\n")
    assert LogShipper(killed).ship()
    other.write("two\n")
    assert LogShipper(other).ship()
    killed.write("more\n")
    killed.close()
    assert ship_left_behind(tmp_path) == 1
    assert [text for *_, text in pieces()] == ["one\n", "two\n", "more\n"]


def test_a_mistake_in_shipping_is_told_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    spool = LogSpool(tmp_path, 7, 1)
    shipper = LogShipper(spool)
    spool.write("one\n")
    with monkeypatch.context() as broken:
        broken.setattr(LogPiece.objects, "create", lambda **_: 1 / 0)
        shipper.finish()
    assert "not shipped" in caplog.text
    # Another finds it
    assert ship_left_behind(tmp_path) == 1
    assert [text for *_, text in pieces()] == ["one\n"]


def test_what_a_database_that_is_away_did_not_take_is_shipped_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = LogSpool(tmp_path, 7, 1)
    shipper = LogShipper(spool)
    spool.write("one\n")

    def away(*_: object, **__: object) -> None:
        raise OperationalError("database is locked")

    with monkeypatch.context() as broken:
        broken.setattr(LogPiece.objects, "create", away)
        assert not shipper.ship()
    spool.write("two\n")
    assert shipper.ship()
    assert [text for *_, text in pieces()] == ["one\n", "two\n"]
    spool.write("three")
    with monkeypatch.context() as broken:
        broken.setattr(LogPiece.objects, "create", away)
        shipper.finish()
    assert [path.name for path in tmp_path.iterdir()] == ["7-1.log"]


def test_the_log_of_a_killed_worker_is_shipped_and_that_of_a_living_one_is_left_alone(tmp_path: Path) -> None:
    killed, living = LogSpool(tmp_path, 7, 1), LogSpool(tmp_path, 8, 1)
    killed.write("first ")
    killed.write("words\n")
    LogShipper(killed).ship()
    killed.write("last words")
    killed.close()
    living.write("alive\n")
    assert ship_left_behind(tmp_path) == 1
    assert pieces(7) == [(1, 1, "first words\n"), (2, 1, "last words")]
    assert pieces(8) == []
    assert [path.name for path in tmp_path.iterdir()] == ["8-1.log"]
