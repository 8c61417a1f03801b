from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil

from hbus_console.supervisor import state


def _snapshot(**role: object) -> state.Snapshot:
    return state.Snapshot(
        pid=os.getpid(),
        started_ms=1,
        url="http://127.0.0.1:8119",
        store="127.0.0.1:7000",
        embedded_store=True,
        roles=[state.RoleState("web", 0, **role)],  # type: ignore[arg-type]
    )


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    state.write(tmp_path, _snapshot(state=state.READY, restarts=3, last_error="killed by SIGKILL"))
    assert state.read(tmp_path) == _snapshot(state=state.READY, restarts=3, last_error="killed by SIGKILL")


def test_the_file_is_private_and_leaves_no_drafts(tmp_path: Path) -> None:
    state.write(tmp_path, _snapshot())
    (path,) = (tmp_path / "run").iterdir()
    assert path.name == "supervisor.json"
    assert path.stat().st_mode & 0o077 == 0


def test_no_file_and_a_damaged_file_are_no_snapshot(tmp_path: Path) -> None:
    assert state.read(tmp_path) is None
    state.write(tmp_path, _snapshot())
    (tmp_path / "run" / "supervisor.json").write_text('{"pid": 1')
    assert state.read(tmp_path) is None


def test_one_supervisor_holds_an_installation(tmp_path: Path) -> None:
    assert not state.is_running(tmp_path)
    lock = state.hold(tmp_path)
    assert lock is not None
    assert state.is_running(tmp_path)
    assert state.hold(tmp_path) is None
    lock.close()
    assert not state.is_running(tmp_path)


def test_a_reused_process_id_is_not_taken_for_the_process(tmp_path: Path) -> None:
    program = [sys.executable, "-c", "print(flush=True); input()"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        created = psutil.Process(child.pid).create_time()
        assert state.RoleState("web", 0, pid=child.pid, created_s=created).process() is not None
        assert state.RoleState("web", 0, pid=child.pid, created_s=created - 60).process() is None
        assert state.RoleState("web", 0, pid=child.pid, created_s=created).memory() > 1_000_000
        child.communicate(b"\n")
    assert state.RoleState("web", 0, pid=child.pid, created_s=created).process() is None
    assert state.RoleState("web", 0, pid=child.pid, created_s=created).memory() == 0
