"""The log of an attempt outlives its worker, is bounded, and shows neither secrets nor control characters."""

from __future__ import annotations

import fcntl
import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.core.secret_values import SecretValues
from engine.cron.work import folder_lock, log_spool
from engine.cron.work.log_spool import LogSpool, left_behind


@pytest.fixture
def spool(tmp_path: Path) -> LogSpool:
    return LogSpool(tmp_path, 5, 2)


def test_only_whole_lines_are_read_until_the_last(spool: LogSpool) -> None:
    spool.write("one\ntw")
    assert spool.read() == "one\n"
    assert spool.read() == ""
    spool.write("o\nthree")
    assert spool.read() == "two\n"
    assert spool.read(last=True) == "three"


def test_a_line_without_end_is_not_waited_for(spool: LogSpool) -> None:
    spool.write("x" * (3 * log_spool.PIECE))
    assert spool.read() == f"{'x' * log_spool.LONGEST_LINE}… (cut)\n"
    # The rest of it is passed over.
    assert spool.read() == ""
    spool.write("x\nnext\n")
    assert spool.read() == "next\n"


def test_half_a_secret_is_never_shown(spool: LogSpool) -> None:
    secret = "abcdefgh12345678" * 4
    for before in (log_spool.PIECE - 40, log_spool.LONGEST_LINE - 10):
        spool.write("y" * 60 + "\n" + "x" * (before - 61) + f" Bearer {secret}\n")
        shown = spool.read() + spool.read() + spool.read(last=True)
        assert secret[:8] not in shown


def test_what_a_run_was_given_in_secret_is_not_shown_wherever_a_piece_ends(spool: LogSpool) -> None:
    spool.secrets = SecretValues(["PINSECRET9", "pass,word"])
    for before in (0, log_spool.PIECE - 65, log_spool.LONGEST_LINE - 5):
        spool.write("y" * 60 + "\n" + "x" * before + ' {"pin": "PINSECRET9"} password=pass,word\n')
        shown = "".join(iter(spool.read, ""))
        assert "PINS" not in shown
        assert "word\n" not in shown
    spool.write("PINSE")
    assert spool.read() == ""
    spool.write("CRET9\n")
    assert spool.read() == "[redacted]\n"


def test_a_line_whose_beginning_was_thrown_away_is_not_shown(spool: LogSpool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be half of a secret that was."""
    monkeypatch.setattr(log_spool, "LARGEST", 50_000)
    spool.secrets = SecretValues(["PINSECRET9"])
    spool.write("x\n" * 50_000 + "PINSE")
    spool.read()
    spool.write("CRET9\nafter\n")
    assert spool.read().splitlines()[1:] == ["after"]


def test_another_reader_that_begins_within_a_line_does_not_show_its_rest(spool: LogSpool, tmp_path: Path) -> None:
    spool.write("x" * (log_spool.PIECE - 5) + "PINSECRET9\nafter\n")
    spool.read()
    spool.close()
    other = LogSpool(tmp_path, 5, 2)
    other.secrets = SecretValues(["PINSECRET9"])
    other.go_on_from(log_spool.PIECE)
    assert other.read() == "after\n"


def test_the_last_piece_of_a_long_log_ends_with_a_line_too(spool: LogSpool) -> None:
    lines = [f"line {number} {'z' * 90}\n" for number in range(400)]
    spool.write("".join(lines))
    pieces = []
    while piece := spool.read(last=True):
        pieces.append(piece)
    assert "".join(pieces) == "".join(lines)
    assert all(piece.endswith("\n") for piece in pieces)


def test_a_piece_is_no_larger_than_it_may_be(spool: LogSpool) -> None:
    spool.write("line\n" * 10_000)
    assert 0 < len(spool.read()) <= log_spool.PIECE


def test_what_a_terminal_would_act_on_is_spelt_out_and_secrets_are_left_out(spool: LogSpool) -> None:
    spool.write("a\x1b[31mred\x00\tb\r\nAuthorization: Bearer abcdefgh12345678\n")
    assert spool.read() == "a\\x1b[31mred\\x00\tb\nAuthorization: [redacted]\n"


def test_bytes_that_are_no_text_do_not_stop_it(spool: LogSpool) -> None:
    os.write(spool.fileno(), b"\xff\xfe ok\n")
    assert spool.read() == "\ufffd\ufffd ok\n"


def test_a_flood_is_thrown_away_and_counted(spool: LogSpool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_spool, "LARGEST", 50_000)
    spool.write("x\n" * 50_000)
    left_out = 100_000 - len(spool.read())
    spool.write("after\n")
    said = f"… {left_out:,} bytes were left out here: they came faster than they were read\n"
    assert spool.read() == f"{said}after\n"


def test_another_reader_goes_on_where_one_stopped(spool: LogSpool, tmp_path: Path) -> None:
    spool.write("one\n")
    spool.read()
    at = spool.at
    spool.write("two\n")
    spool.close()
    other = LogSpool(tmp_path, 5, 2)
    other.go_on_from(at)
    assert other.read() == "two\n"
    other.go_on_from(1_000)
    assert other.read() == "one\ntwo\n"


def test_nobody_else_reads_the_file_of_a_worker_that_lives(spool: LogSpool, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a log")
    spool.write("here\n")
    assert list(left_behind(tmp_path)) == []
    spool.close()
    (found,) = left_behind(tmp_path)
    assert (found.run, found.attempt, found.read()) == (5, 2, "here\n")
    found.remove()
    assert list(left_behind(tmp_path)) == []


def test_no_file_is_taken_for_left_behind_between_its_making_and_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another looks for what was left behind just before the file is locked: it has to wait, and finds nothing."""
    looked, found = queue.Queue[str](), list[LogSpool]()
    lock, lock_folder = fcntl.flock, folder_lock.lock_folder

    def look() -> None:
        monkeypatch.setattr(folder_lock, "lock_folder", waits)
        found.extend(left_behind(tmp_path))
        looked.put("has looked")

    def waits(folder: Path) -> int:
        looked.put("waits")
        return lock_folder(folder)

    looking = threading.Thread(target=look)

    def late(file: int, how: int) -> None:
        if looking.ident is None:
            looking.start()
            looked.get(timeout=10)
        lock(file, how)

    monkeypatch.setattr(log_spool, "fcntl", SimpleNamespace(**vars(fcntl) | {"flock": late}))
    LogSpool(tmp_path, 7, 1)
    looking.join(10)
    assert found == []


def test_what_a_killed_worker_wrote_is_left_behind(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path; from engine.cron.work.log_spool import LogSpool\n"
        "LogSpool(Path(sys.argv[1]), 9, 1).write('last words\\n'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False).returncode == -signal.SIGKILL
    (found,) = left_behind(tmp_path)
    assert found.read() == "last words\n"
    assert (tmp_path / "9-1.log").stat().st_mode & 0o777 == 0o600
    found.close()


def test_what_has_a_line_read_as_what_it_is_not_is_spelt_out_too(spool: LogSpool) -> None:
    # "gpj.exe" as "exe.jpg", and one line as two.
    spool.write("\u202egpj.exe\u2066\u200f \u2028שלום é 🏨\n")
    assert spool.read() == "\\u202egpj.exe\\u2066\\u200f \\u2028שלום é 🏨\n"
