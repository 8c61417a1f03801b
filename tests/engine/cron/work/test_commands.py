"""A program runs with what it is told, and nothing of it is left when it has ended, however it ended."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from engine.cron.work.call import LastCall
from engine.cron.work.commands import STOOD_STILL, Program, run_program
from engine.cron.work.leash import Orders
from tests.engine.cron.work.conftest import Given

#: Starts a grandchild in a session of its own that ignores SIGTERM, tells its number, and waits with it.
_STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
loop = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
made = subprocess.Popen([sys.executable, "-c", loop], start_new_session=True, stdout=subprocess.PIPE)
made.stdout.readline()
open(sys.argv[1] + ".part", "w").write(f"{os.getpid()} {made.pid}")
os.rename(sys.argv[1] + ".part", sys.argv[1])
if sys.argv[2] == "stay":
    time.sleep(600)
"""


def stubborn(told: Path, then: str) -> Program:
    return Program([sys.executable, "-c", _STUBBORN, str(told), then], grace_s=0.2)


def until_told(told: Path) -> list[int]:
    until = time.monotonic() + 30
    while not told.exists():
        assert time.monotonic() < until, "the program has not started"
        time.sleep(0.01)
    return [int(word) for word in told.read_text().split()]


def gone(pids: list[int]) -> bool:
    return all(_gone(pid) for pid in pids)


def _gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_it_is_told_what_run_it_is_and_nothing_of_the_workers_secrets(
    given: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://:hidden@store")
    code = "import os, json; print(json.dumps(dict(os.environ)))"
    context = given(hotel="HB-1")
    assert run_program(context, Program([sys.executable, "-c", code], environment={"MODE": "night"})).done
    told = json.loads(context.log.read())
    assert (told["HBUS_JOB"], told["HBUS_SLOT"], told["HBUS_EPOCH"]) == ("close-of-day", "1790000000", "7")
    assert json.loads(told["HBUS_PARAMETERS"]) == {"hotel": "HB-1"}
    assert told["MODE"] == "night"
    assert "REDIS_URL" not in told


@pytest.mark.parametrize(
    ("command", "reason", "again"),
    [
        (["sh", "-c", "echo no >&2; exit 3"], "it ended with exit code 3", True),
        (["sh", "-c", "kill -SEGV $$"], "it was ended by SIGSEGV", True),
        (["sh", "-c", "exit 127"], "it ended with exit code 127", False),
        (["/no/such/program"], "its program cannot be started: No such file or directory", False),
        (["/"], "its program cannot be started: Permission denied", False),
    ],
)
def test_it_says_how_the_program_ended(given: Given, command: list[str], reason: str, again: bool) -> None:
    outcome = run_program(given(), Program(command))
    assert (outcome.done, outcome.reason, outcome.again) == (False, reason, again)


def test_a_folder_that_is_not_there_is_said(given: Given) -> None:
    outcome = run_program(given(), Program(["true"], folder=Path("/no/such/folder")))
    assert (outcome.done, outcome.again) == (False, False)
    assert "No such file or directory" in outcome.reason


def test_what_it_writes_is_in_the_log_in_its_order(given: Given) -> None:
    context = given()
    run_program(context, Program(["sh", "-c", "echo one; echo two >&2; printf three"]))
    assert context.log.read(last=True) == "one\ntwo\nthree"


def test_a_stop_ends_the_whole_tree_even_what_left_its_group(given: Given, tmp_path: Path) -> None:
    context, told = given(), tmp_path / "told"
    stopper = threading.Thread(target=lambda: (until_told(told), context.stop("it took longer than 5 s")))
    stopper.start()
    outcome = run_program(context, stubborn(told, "stay"))
    stopper.join()
    assert (outcome.done, outcome.reason) == (False, "it took longer than 5 s")
    assert gone(until_told(told))
    # Two that do not hear it, of which one has left the group.
    assert re.fullmatch(r"hbus: asked to end: (2 python\S*); killed: \1\n", context.log.read(last=True))


def test_the_name_of_a_process_is_its_own_to_choose_and_is_shown_as_a_word(given: Given, tmp_path: Path) -> None:
    context, told, program = given(), tmp_path / "told", tmp_path / "a) b\nhbus: x"
    program.symlink_to("/bin/sleep")
    script = f"'{program}' 600 & until grep -q 'a)' /proc/$!/comm; do :; done; echo 1 > {told}; wait"
    stopper = threading.Thread(target=lambda: (until_told(told), context.stop("cancelled")))
    stopper.start()
    run_program(context, Program(["sh", "-c", script]))
    stopper.join()
    assert re.fullmatch(r"hbus: asked to end: a\?\?b\?hbus\?\?x, sh\n", context.log.read(last=True))


def test_what_a_program_leaves_running_ends_with_it(given: Given, tmp_path: Path) -> None:
    told = tmp_path / "told"
    assert run_program(given(), stubborn(told, "go")).done
    assert gone(until_told(told))


def test_a_polite_program_may_end_by_itself(given: Given, tmp_path: Path) -> None:
    context, told = given(), tmp_path / "told"
    script = f"trap 'echo tidied; exit 0' TERM; echo 1 > {told}; while :; do sleep 0.05; done"
    stopper = threading.Thread(target=lambda: (until_told(told), context.stop("cancelled")))
    stopper.start()
    outcome = run_program(context, Program(["sh", "-c", script], grace_s=20))
    stopper.join()
    assert not outcome.done
    *_, tidied, ended = context.log.read().splitlines()
    assert tidied == "tidied"
    assert re.fullmatch(r"hbus: asked to end: sh(, sleep)?", ended)


_WORKER = """
import sys
from pathlib import Path
from engine.cron.work.call import RunCall, RunContext
from engine.cron.work.call import LastCall
from engine.cron.work.commands import STOOD_STILL, Program, run_program
from engine.cron.work.leash import Orders
from engine.cron.work.log_spool import LogSpool
spool = LogSpool(Path(sys.argv[1]), 1, 1)
run_program(RunContext(RunCall(1, "j", 1, 0, 1, "c"), spool), Program(sys.argv[2:], grace_s=600))
"""


def test_when_the_worker_is_killed_its_programs_are(tmp_path: Path) -> None:
    told = tmp_path / "told"
    program = [sys.executable, "-c", _STUBBORN, str(told), "stay"]
    worker = subprocess.Popen([sys.executable, "-c", _WORKER, str(tmp_path / "runs"), *program])
    pids = until_told(told)
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    until = time.monotonic() + 30
    while not gone(pids):
        assert time.monotonic() < until, "a part of its tree lives on"
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ([], "it names no program"),
        (["a\0b"], "its program cannot be started: embedded null byte"),
        (["sh", "-c", "kill -40 $$"], "it was ended by signal 40"),
    ],
)
def test_what_no_system_takes_is_said(given: Given, command: list[str], reason: str) -> None:
    assert run_program(given(), Program(command)).reason == reason


def test_what_the_program_started_may_tidy_up_too(given: Given, tmp_path: Path) -> None:
    context, told = given(), tmp_path / "told"
    # The shell in front dies at once; the one behind it takes its time.
    inner = f"trap 'sleep 0.3; echo tidied; exit 0' TERM; echo 1 > {told}; while :; do sleep 0.05; done"
    script = f'(exec setsid sh -c "{inner}") & wait'
    stopper = threading.Thread(target=lambda: (until_told(told), context.stop("cancelled")))
    stopper.start()
    run_program(context, Program(["sh", "-c", script], grace_s=20))
    stopper.join()
    assert "tidied\n" in context.log.read(last=True)


_STANDS_STILL = """
import sys, time
from pathlib import Path
from engine.cron.work.call import LastCall, RunCall, RunContext
from engine.cron.work.commands import Program, run_program
from engine.cron.work.log_spool import LogSpool
context = RunContext(RunCall(1, "j", 1, 0, 1, "c"), LogSpool(Path(sys.argv[1]), 1, 1))
context.last_call = LastCall(time.monotonic() + 3, time.monotonic() + 3.5)
print(run_program(context, Program(sys.argv[2:], grace_s=600)).reason, flush=True)
"""


def test_when_the_worker_stands_still_its_programs_are_gone_when_its_lease_is_over(tmp_path: Path) -> None:
    told = tmp_path / "told"
    program = [sys.executable, "-c", _STUBBORN, str(told), "stay"]
    code = [sys.executable, "-c", _STANDS_STILL, str(tmp_path / "runs"), *program]
    worker = subprocess.Popen(code, stdout=subprocess.PIPE, text=True)
    pids = until_told(told)
    # From here on nobody says anything to the leash.
    os.kill(worker.pid, signal.SIGSTOP)
    try:
        until = time.monotonic() + 30
        while not gone(pids):
            assert time.monotonic() < until, "it goes on beside the next run"
            time.sleep(0.01)
    finally:
        os.kill(worker.pid, signal.SIGCONT)
        said, _ = worker.communicate(timeout=30)
    assert said == f"{STOOD_STILL}\n"


def test_what_is_said_of_the_lease_while_it_runs_reaches_its_leash(given: Given, tmp_path: Path) -> None:
    context, told = given(), tmp_path / "told"
    context.last_call = LastCall(time.monotonic() + 600, time.monotonic() + 600)

    def lose() -> None:
        until_told(told)
        context.last_call = LastCall(0.0, 0.0)

    losing = threading.Thread(target=lose)
    losing.start()
    outcome = run_program(context, stubborn(told, "stay"))
    losing.join()
    assert (outcome.done, outcome.reason, outcome.again) == (False, STOOD_STILL, True)
    assert gone(until_told(told))


def test_a_grace_does_not_outlast_the_lease(given: Given, tmp_path: Path) -> None:
    context, told = given(), tmp_path / "told"
    context.last_call = LastCall(time.monotonic() + 600, 0.0)
    stopper = threading.Thread(target=lambda: (until_told(told), context.stop("its lease was lost while it ran")))
    stopper.start()
    program = Program(stubborn(told, "stay").command, grace_s=600)
    assert run_program(context, program).reason == "its lease was lost while it ran"
    stopper.join()
    assert gone(until_told(told))


def test_each_order_counts_from_its_end_on_and_the_last_word_holds() -> None:
    read, write = os.pipe()
    orders = Orders(read, 1.0, 2.0)
    os.write(write, b"until 3.5 4.5\nuntil 5.5")
    orders.read()
    assert (orders.asked, orders.over, orders.end) == (3.5, 4.5, False)
    os.write(write, b" inf\nend\n")
    orders.read()
    assert (orders.asked, orders.over, orders.end, orders.gone) == (5.5, float("inf"), True, False)
    os.close(write)
    orders.read()
    assert orders.gone
    os.close(read)
