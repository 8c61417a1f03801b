"""What must not keep the supervisor from watching, restarting and ending its roles."""

from __future__ import annotations

import os
import signal
import threading

from engine.core.errors import ConfigurationError
from hbus_console.registry.declaration import ProcessRole
from hbus_console.supervisor import probes, state
from hbus_console.supervisor.installation import Installation
from tests.full_disk import no_room
from tests.hbus_console.supervisor.kit import Bench, Scripted, role


def test_a_full_disk_is_told_once_and_keeps_no_role_from_being_watched_and_restarted(bench: Bench) -> None:
    hung = bench.state / "hung"
    one = role("one", probe=lambda *_: probes.SILENT if hung.exists() else "")

    async def scenario(bench: Bench) -> None:
        await bench.until_ready("one", "two")
        before = bench.seen("two").pid
        with no_room():
            hung.touch()
            os.kill(before, signal.SIGKILL)
            # Hung or killed: each is told, and each is started again.
            await bench.until(lambda: "two ended: killed by SIGKILL. Starting it again" in bench.said.getvalue())
            await bench.until(
                lambda: "one ended: deaf for 0.2 s, and killed for that. Starting it again" in bench.said.getvalue()
            )
            for name in ("one", "two"):
                ended, up = f"{name} ended: ", f"{name}         up\n"
                await bench.until(lambda after=ended, up=up: up in bench.said.getvalue().partition(after)[2])  # type: ignore[misc]
            assert bench.seen("two").pid == before  # as it was noted last
            hung.unlink()
        # What it could not note it notes by itself, as soon as there is room.
        await bench.until(lambda: bench.seen("one").restarts == bench.seen("two").restarts == 1)
        await bench.until_ready("one", "two")

    code, _ = bench.run([one, role("two")], scenario)
    assert code == 0
    said = bench.said.getvalue()
    assert said.count("What runs cannot be noted in") == 1
    assert said.count("What runs is noted again.") == 1
    assert list((bench.state / "run").iterdir()) == [bench.state / "run" / "supervisor.json"]


def test_a_role_whose_configuration_cannot_be_written_is_tried_again(bench: Bench) -> None:
    config = bench.state / "config"
    one = role("one", prepare=lambda: config.write_text("x"))

    async def scenario(bench: Bench) -> None:
        with no_room():
            await bench.until(lambda: bench.said.getvalue().count("one could not be started: OSError: ") >= 2)
        await bench.until_ready("one")
        assert "could not be started" not in bench.seen("one").last_error
        assert bench.seen("one").last_error.startswith("OSError: ")

    code, _ = bench.run([one], scenario)
    assert code == 0


def test_a_role_that_the_system_has_no_process_for_is_tried_again(bench: Bench) -> None:
    program = bench.state / "program"

    class Late(Scripted):
        def command(self, at: Installation, slot: int) -> list[str]:
            return [str(program)]

    late = Late(ProcessRole("one", "one", "", needs=(), grace_s=2.0, tone=36))

    async def scenario(bench: Bench) -> None:
        await bench.until(lambda: "one could not be started: FileNotFoundError" in bench.said.getvalue())
        program.write_text("#!/bin/sh\nexec sleep 60\n")
        program.chmod(0o700)
        await bench.until_ready("one")

    code, _ = bench.run([late], scenario)
    assert code == 0


def test_a_role_that_nothing_can_start_ends_everything_at_first_and_is_tried_again_later(bench: Bench) -> None:
    binary = bench.state / "binary"
    binary.touch()

    def find() -> None:
        if not binary.exists():
            raise ConfigurationError("There is no server.", remedy="Install one.")

    async def scenario(bench: Bench) -> None:
        await bench.until_ready("one")
        binary.unlink()
        os.kill(bench.seen("one").pid, signal.SIGKILL)
        await bench.until(lambda: "one could not be started: There is no server. Starting it" in bench.said.getvalue())
        binary.touch()
        await bench.until_ready("one")
        binary.unlink()

    code, _ = bench.run([role("one", prepare=find)], scenario)
    assert code == 0

    async def refused(bench: Bench) -> None:
        await bench.until(lambda: bench.seen("one").state == state.STOPPED)

    (bench.state / "run" / "supervisor.json").unlink()
    code, supervisor = bench.run([role("one", prepare=find)], refused)
    assert (code, supervisor.failure) == (2, "There is no server. Install one.")


def test_a_probe_that_fails_does_not_end_the_watch(bench: Bench) -> None:
    broken = bench.state / "broken"
    hung = bench.state / "hung"

    def ask(at: Installation, slot: int, pid: int) -> str:
        if broken.exists():
            raise KeyError("a mistake of the probe")
        return probes.SILENT if hung.exists() else ""

    async def scenario(bench: Bench) -> None:
        await bench.until_ready("one")
        before = bench.seen("one").pid
        broken.touch()
        await bench.until(lambda: "Watching one failed (KeyError" in bench.said.getvalue())
        broken.unlink()
        hung.touch()
        await bench.until(lambda: bench.seen("one").pid not in {0, before})
        hung.unlink()
        await bench.until_ready("one")

    code, _ = bench.run([role("one", probe=ask)], scenario)
    assert code == 0


def test_a_role_that_starts_while_all_are_being_stopped_is_stopped_as_well(bench: Bench) -> None:
    started = threading.Event()
    go_on = threading.Event()

    def prepare() -> None:
        started.set()
        go_on.wait(20)

    async def scenario(bench: Bench) -> None:
        await bench.until(started.is_set)
        os.kill(os.getpid(), signal.SIGTERM)
        await bench.until(lambda: "Stopping" in bench.said.getvalue())
        go_on.set()
        await bench.until(lambda: bench.seen("one").state == state.STOPPED)

    code, _ = bench.run([role("one", prepare=prepare)], scenario)
    assert code == 0
