"""The supervisor with real processes in the place of the roles, so that each of its promises can be seen by itself."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

from hbus_console.supervisor import probes, state
from hbus_console.supervisor.console import Console
from hbus_console.supervisor.installation import Installation
from hbus_console.supervisor.roles import SupervisedRole
from hbus_console.supervisor.supervisor import Pace, Supervisor
from tests.hbus_console.supervisor.kit import FAST, RUN, Bench, deaf_role, role


def test_a_dependent_starts_only_when_what_it_needs_is_ready(bench: Bench) -> None:
    gate = bench.state / "gate"

    def opened(at: Installation, slot: int, pid: int) -> str:
        return "" if gate.exists() else "the gate is shut"

    async def scenario(bench: Bench) -> None:
        await bench.until(lambda: bench.seen("first").reason == "the gate is shut")
        assert bench.seen("second").state == state.WAITING
        assert bench.seen("second").pid == 0
        gate.touch()
        await bench.until_ready("first", "second")

    code, _ = bench.run([role("first", probe=opened), role("second", needs=("first",))], scenario)
    assert code == 0
    assert "All is ready" in bench.said.getvalue()


def test_a_killed_process_is_started_again_and_counted(bench: Bench) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.until_ready("one")
        before = bench.seen("one").pid
        os.kill(before, signal.SIGKILL)
        await bench.until(lambda: bench.seen("one").pid not in {0, before})
        await bench.until_ready("one")
        assert bench.seen("one").restarts == 1
        assert bench.seen("one").last_error == "killed by SIGKILL"

    bench.run([role("one")], scenario)


def test_backoff_doubles_up_to_its_bound_and_the_last_words_are_kept(bench: Bench) -> None:
    never = role("one", "import sys; print('no luck'); sys.exit(3)", probe=lambda *_: "not yet")

    async def scenario(bench: Bench) -> None:
        await bench.until(lambda: bench.seen("one").restarts >= 4)

    bench.run([never], scenario)
    said = bench.said.getvalue()
    pauses = [line.rsplit(" in ", 1)[1] for line in said.splitlines() if "Starting it again" in line]
    assert pauses[:4] == ["0.05 s.", "0.1 s.", "0.2 s.", "0.2 s."]
    assert bench.seen("one").last_error == "exit code 3; last said: no luck"


def test_backoff_starts_over_once_a_process_has_proved_itself(bench: Bench) -> None:
    async def scenario(bench: Bench) -> None:
        for restarts in range(3):
            await bench.until(lambda wanted=restarts: bench.seen("one").restarts == wanted)  # type: ignore[misc]
            await bench.until_ready("one")
            ready_ms = bench.seen("one").ready_ms
            await bench.until(lambda since=ready_ms: time.time() * 1000 - since > FAST.healthy_s * 1000)  # type: ignore[misc]
            os.kill(bench.seen("one").pid, signal.SIGKILL)
        await bench.until(lambda: bench.seen("one").restarts == 3)

    bench.run([role("one")], scenario)
    pauses = [line for line in bench.said.getvalue().splitlines() if "Starting it again" in line]
    assert len(pauses) == 3
    assert all(line.endswith("in 0.05 s.") for line in pauses)


def test_what_depends_stops_before_what_it_depends_on(bench: Bench) -> None:
    ends = bench.state / "ends"
    program = (
        "import signal, sys, time\n"
        "def end(*_):\n"
        "    time.sleep({pause}); open({path!r}, 'a').write('{name}\\n'); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "open({path!r} + '.{name}', 'w').close()\n"
        "time.sleep(60)\n"
    )

    def ending(name: str, pause: float, needs: tuple[str, ...] = ()) -> SupervisedRole:
        return role(
            name,
            program.format(name=name, pause=pause, path=str(ends)),
            needs=needs,
            probe=lambda *_: "" if Path(f"{ends}.{name}").exists() else "starting",
        )

    async def scenario(bench: Bench) -> None:
        await bench.until_ready("store", "web", "consumer")

    code, _ = bench.run(
        [ending("store", 0), ending("web", 0.3, ("store",)), ending("consumer", 0.1, ("store",))], scenario
    )
    assert code == 0
    assert ends.read_text().split() == ["consumer", "web", "store"]
    assert {bench.seen(name).state for name in ("store", "web", "consumer")} == {state.STOPPED}


def test_a_process_that_does_not_stop_in_time_is_killed_and_named(bench: Bench) -> None:
    one = deaf_role(bench, grace_s=0.2)

    async def scenario(bench: Bench) -> None:
        await bench.until_ready("one")

    code, _ = bench.run([one], scenario)
    assert code == 0
    assert "one did not stop within 0.2 s and was killed" in bench.said.getvalue()


def test_a_role_that_refuses_to_start_ends_everything_with_its_sentence(bench: Bench) -> None:
    refusing = role("two", "import sys; print('hbus: no such database'); sys.exit(2)", probe=lambda *_: "not yet")

    async def scenario(bench: Bench) -> None:
        await bench.until(lambda: bench.seen("two").state == state.STOPPED and bench.seen("one").state == state.STOPPED)

    code, supervisor = bench.run([role("one"), refusing], scenario)
    assert code == 2
    assert supervisor.failure == "hbus: no such database"


def test_a_role_that_falls_short_is_shown_and_recovers_without_a_restart(bench: Bench) -> None:
    trouble = bench.state / "trouble"
    one = role("one", probe=lambda *_: "store does not answer" if trouble.exists() else "")

    async def scenario(bench: Bench) -> None:
        await bench.until_ready("one")
        pid = bench.seen("one").pid
        trouble.touch()
        await bench.until(lambda: bench.seen("one").state == state.NOT_READY)
        assert bench.seen("one").reason == "store does not answer"
        trouble.unlink()
        await bench.until_ready("one")
        assert (bench.seen("one").pid, bench.seen("one").reason) == (pid, "")
        assert bench.seen("one").last_error == "store does not answer"

    bench.run([one], scenario)


def test_a_loop_that_stands_still_is_killed_and_started_again(bench: Bench) -> None:
    hung = bench.state / "hung"
    one = role("one", probe=lambda *_: probes.SILENT if hung.exists() else "")

    async def scenario(bench: Bench) -> None:
        await bench.until_ready("one")
        before = bench.seen("one").pid
        hung.touch()
        await bench.until(lambda: bench.seen("one").pid not in {0, before})
        hung.unlink()
        await bench.until_ready("one")

    bench.run([one], scenario)
    assert "and killed for that" in bench.said.getvalue()


def test_lines_go_to_the_terminal_with_a_name_and_to_a_file_as_they_are(bench: Bench) -> None:
    one = role("one", 'import time; print(\'{"event": "hello"}\', flush=True); time.sleep(60)')

    async def scenario(bench: Bench) -> None:
        await bench.until(lambda: "hello" in bench.said.getvalue())

    bench.run([one], scenario)
    assert "one         hello\n" in bench.said.getvalue()
    assert (bench.state / "logs" / "one.log").read_text() == '{"event": "hello"}\n'


def test_roles_learn_who_they_are_and_where_the_store_is(bench: Bench) -> None:
    asks = (
        "import os, time; print(*(os.environ[n] for n in ('HBUS_ROLE', 'HBUS_SLOT', 'REDIS_URL', 'STATE')), flush=True)"
    )

    async def scenario(bench: Bench) -> None:
        await bench.until(lambda: "redis://" in bench.said.getvalue())

    bench.run([role("one", asks)], scenario)
    assert f"one 0 redis://127.0.0.1:1/0 {bench.state}" in bench.said.getvalue()


def test_what_an_earlier_supervisor_left_is_ended_first(bench: Bench) -> None:
    async def leave(bench: Bench) -> None:
        await bench.until_ready("one")

    async def scenario(bench: Bench) -> None:
        leftover = await asyncio.create_subprocess_exec(sys.executable, "-c", RUN, stdout=asyncio.subprocess.DEVNULL)
        import psutil

        left = state.RoleState(
            "one", 0, state=state.READY, pid=leftover.pid, created_s=psutil.Process(leftover.pid).create_time()
        )
        state.write(bench.state, state.Snapshot(1, 1, "", "", True, [left]))
        pace = Pace(leftover_s=0.2, probe_first_s=0.02, probe_most_s=0.05)
        supervisor = Supervisor(bench.at(), [(role("one"), 0)], Console(bench.said), pace=pace)
        running = asyncio.create_task(supervisor.run())
        await bench.until(lambda: bench.seen("one").pid not in {0, leftover.pid})
        assert await asyncio.wait_for(leftover.wait(), 5) == -signal.SIGTERM
        os.kill(os.getpid(), signal.SIGTERM)
        await running

    asyncio.run(scenario(bench))
    assert "of an earlier start to end" in bench.said.getvalue()


def test_a_second_signal_ends_it_at_once(bench: Bench) -> None:
    deaf = deaf_role(bench, grace_s=30)

    async def scenario(bench: Bench) -> None:
        await bench.until_ready("one")
        os.kill(os.getpid(), signal.SIGINT)
        await bench.until(lambda: bench.seen("one").state == state.STOPPING)
        os.kill(os.getpid(), signal.SIGINT)  # of the same wish: a terminal and a shell may both pass it on
        await asyncio.sleep(0)
        assert bench.seen("one").state == state.STOPPING
        begun = time.monotonic()
        await bench.until(lambda: time.monotonic() - begun > 0.6)
        os.kill(os.getpid(), signal.SIGINT)
        await bench.until(lambda: bench.seen("one").state == state.STOPPED)

    bench.run([deaf], scenario)
