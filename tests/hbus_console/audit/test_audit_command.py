from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from engine.core.clock import ManualClock, SystemClock
from hbus_console.audit.anchor import last_anchor
from hbus_console.audit.models import AuditEntry

Write = Callable[..., list[AuditEntry]]


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("audit", *arguments, stdout=out)
    return out.getvalue()


def test_verify_says_so_in_one_line_and_in_json(write: Write) -> None:
    write(3)
    assert run("verify") == "3 entries verified: unbroken; there are no anchors to tell whether its end was cut off.\n"
    out = run("verify", "--json")
    assert out.count("\n") == 1
    verdict = json.loads(out)
    assert (verdict["holds"], verdict["entries"], verdict["findings_total"]) == (True, 3, 0)


@pytest.mark.parametrize("arguments", [("verify",), ("verify", "--json")])
def test_verify_exits_with_1_when_the_log_does_not_hold(
    write: Write, tamper: Any, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    write(3)
    tamper("DELETE FROM audit_auditentry WHERE seq = 2")
    with pytest.raises(SystemExit) as caught:
        call_command("audit", *arguments)
    assert caught.value.code == 1
    out = capsys.readouterr().out
    if "--json" in arguments:
        assert json.loads(out)["findings"] == [{"kind": "removed", "seq": 2, "what": "Entry 2 is missing."}]
    else:
        assert "removed: Entry 2 is missing." in out


def test_verify_since_last_walks_the_rest(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write(3)
    run("verify")
    write(2)
    assert run("verify", "--since-last").startswith("2 entries verified (from entry 4 on)")


def test_export_writes_a_new_file_and_is_audited(write: Write, tmp_path: Path) -> None:
    write(3)
    target = tmp_path / "log.jsonl"
    run("export", "--output", str(target), "--reason", "review", "--target", "booking.created")
    assert [json.loads(line)["seq"] for line in target.read_text().splitlines()] == [1, 2, 3]
    entry = AuditEntry.objects.latest("seq")
    assert (entry.action, entry.reason, entry.actor_kind) == ("audit.export", "review", "shell")


def test_export_never_overwrites_and_then_leaves_no_entry(write: Write, tmp_path: Path) -> None:
    write(1)
    target = tmp_path / "log.csv"
    target.write_text("precious")
    with pytest.raises(CommandError) as caught:
        run("export", "--as", "csv", "--output", str(target))
    assert caught.value.returncode == 2
    assert target.read_text() == "precious"
    assert AuditEntry.objects.count() == 1


@pytest.mark.parametrize("arguments", [("--from", "yesterday"), ("--q", "x" * 201)])
def test_bad_input_ends_with_2(write: Write, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    with pytest.raises(CommandError) as caught:
        run("export", "--output", str(tmp_path / "x"), *arguments)
    assert caught.value.returncode == 2
    assert not AuditEntry.objects.exists()
    assert not (tmp_path / "x").exists()


def test_anchor_anchors_now(write: Write) -> None:
    write(2)
    assert run("anchor").startswith("Entry 2 anchored at ")
    anchor = last_anchor()
    assert anchor is not None
    assert anchor.seq == 2
    assert run("anchor") == "The head is anchored already.\n"


def test_anchor_begins_nothing_unasked_where_an_older_log_has_no_anchor(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hbus_console.audit.anchor._wall", ManualClock(SystemClock().now_ms() + 7_200_000))
    write(2)
    with pytest.raises(CommandError, match="it may have been cut off") as caught:
        run("anchor")
    assert caught.value.returncode == 2
    assert run("anchor", "--begin", "--reason", "restored").startswith("Entry 3 anchored at ")
    assert run("anchor") == "The head is anchored already.\n"
