"""Real fetches by the real pip, from an index on loopback into a Python of their own."""

from __future__ import annotations

import signal
import stat

import psutil

from hbus_console.spark_fetch.progress import Phase, Progress
from hbus_console.supervisor import state
from tests.hbus_console.spark_fetch.conftest import World
from tests.hbus_console.spark_fetch.index import SIZE

RECORD = "toyspark-1.0.dist-info"


def _downloading(found: Progress | None) -> bool:
    return found is not None and found.phase is Phase.DOWNLOADING and found.done > 0


def _processes(fetch: psutil.Process) -> list[psutil.Process]:
    """The fetch, and pip below it."""
    family = [fetch, *fetch.children(recursive=True)]
    assert len(family) == 2
    return family


def _gone(processes: list[psutil.Process]) -> bool:
    _, alive = psutil.wait_procs(processes, timeout=20)
    return all(each.status() == psutil.STATUS_ZOMBIE for each in alive)


def test_what_is_needed_is_installed_with_a_stamp_and_not_again(world: World) -> None:
    world.stamp.with_name(".spark-0").touch()
    first = world.fetch()
    assert (first.wait(60), world.stamp.exists()) == (0, True)
    assert (world.packages / RECORD / "INSTALLER").exists()
    assert stat.S_IMODE((world.packages / "toyspark" / "data").stat().st_mode) & 0o044 == 0o044
    assert not world.stamp.with_name(".spark-0").exists()
    assert world.left() == []
    asked = list(world.index.asked)
    assert world.fetch().wait(60) == 0
    assert world.index.asked == asked


def test_beside_a_console_it_tells_how_many_bytes_of_how_many_are_there_and_that_it_is_ready(world: World) -> None:
    world.index.rest.clear()
    fetch = world.fetch(world.supervisor())
    found = world.progress(_downloading)
    assert found is not None
    assert (found.package, found.total) == ("toyspark", 3_000_000)
    assert 0 < found.done <= SIZE / 2 + 1_000
    assert found.words == f"Spark is being fetched: {found.done // 1_000_000} of 3 MB of toyspark."
    assert psutil.Process(fetch.pid).nice() == 19
    world.index.rest.set()
    ended = world.progress(lambda seen: seen is not None and not seen.goes_on)
    assert ended is not None
    assert (ended.phase, ended.words, world.stamp.exists()) == (Phase.READY, "Spark is ready.", True)
    said = fetch.communicate(timeout=20)[0].decode()
    assert said.count("Spark is being fetched beside the console") == said.count("Spark is ready.") == 1
    for noted in ("run/spark.json", "logs/spark.log"):
        assert stat.S_IMODE((world.at / noted).stat().st_mode) == 0o600, noted


def test_it_does_not_begin_before_all_roles_of_its_console_have_been_ready(world: World) -> None:
    supervisor = world.supervisor(ready=False)
    fetch = world.fetch(supervisor)
    # Of a former start, with another number.
    former = world.start(["sleep", "300"])
    for told in (supervisor, former):
        world.tell(told, ready=told is former)
        psutil.wait_procs([psutil.Process(fetch.pid)], timeout=1.5)
        assert (fetch.poll(), world.index.asked) == (None, [])
    world.tell(supervisor)
    assert fetch.wait(60) == 0
    assert world.stamp.exists()


def test_it_ends_with_its_console_and_leaves_nothing(world: World) -> None:
    for end in ("the supervisor is stopping", "the supervisor is killed", "Ctrl-C"):
        world.index.rest.clear()
        supervisor = world.supervisor()
        fetch = world.fetch(supervisor)
        world.progress(_downloading)
        family = _processes(psutil.Process(fetch.pid))
        if end == "the supervisor is stopping":
            world.tell(supervisor, word=state.STOPPING)
        elif end == "the supervisor is killed":
            supervisor.kill()
            supervisor.wait()
        else:
            fetch.send_signal(signal.SIGINT)
        assert fetch.wait(20) == 0, end
        assert _gone(family), end
        assert (world.progress(lambda found: found is None), world.left()) == (None, []), end
        assert not world.stamp.exists()
        assert not (world.packages / "toyspark").exists()
    world.index.rest.set()
    assert world.fetch(world.supervisor()).wait(60) == 0
    assert world.stamp.exists()


def test_a_fetch_that_was_killed_claims_nothing_and_leaves_no_pip(world: World) -> None:
    world.index.rest.clear()
    fetch = world.fetch(world.supervisor())
    world.progress(_downloading)
    family = _processes(psutil.Process(fetch.pid))
    fetch.kill()
    fetch.wait()
    assert _gone(family)
    assert (world.at / "run" / "spark.json").exists()
    assert world.progress(lambda found: found is None) is None
    assert world.left() != []
    world.index.rest.set()
    assert world.fetch(world.supervisor()).wait(60) == 0
    assert (world.left(), world.stamp.exists()) == ([], True)


def test_what_was_cut_off_half_installed_is_installed_anew(world: World) -> None:
    """pip itself takes it for installed."""
    assert world.fetch().wait(60) == 0
    for path in (world.packages / RECORD / "INSTALLER", world.packages / "toyspark" / "data", world.stamp):
        path.unlink()
    assert world.fetch(world.supervisor()).wait(60) == 0
    assert (world.packages / RECORD / "INSTALLER").exists()
    assert (world.packages / "toyspark" / "data").stat().st_size == SIZE
    assert "toyspark-1.0 was cut off" in (world.at / "logs" / "spark.log").read_text()


def test_what_fails_is_said_once_in_pip_s_words_and_no_credential_is_in_them(world: World) -> None:
    world.index.wheels.clear()
    fetch = world.fetch(world.supervisor(), user="anna:geheim-4711")
    found = world.progress(lambda seen: seen is not None and not seen.goes_on)
    assert found is not None
    assert (found.phase, found.words) == (Phase.FAILED, "Spark could not be fetched.")
    assert "No matching distribution found for toyspark==1.0" in found.said
    said = fetch.communicate(timeout=20)[0].decode()
    assert said.count("Spark could not be fetched") == 1
    kept = said + "".join((world.at / name).read_text() for name in ("run/spark.json", "logs/spark.log"))
    assert "geheim" not in kept
    assert (world.stamp.exists(), world.left()) == (False, [])


def test_without_a_network_that_is_what_it_says(world: World) -> None:
    world.index.close()
    fetch = world.fetch(world.supervisor())
    found = world.progress(lambda seen: seen is not None and not seen.goes_on)
    assert found is not None
    assert found.said.startswith("the network or the package index did not answer")
    assert fetch.communicate(timeout=20)[0].decode().count("did not answer") == 1


def test_one_at_a_time_fetches_into_a_python_and_the_other_waits_for_its_end(world: World) -> None:
    world.index.rest.clear()
    first = world.fetch(world.supervisor())
    world.progress(_downloading)
    second = world.fetch()
    assert second.stdout is not None
    assert second.stdout.readline() == b"Spark is being fetched already; waiting for the end of that.\n"
    world.index.rest.set()
    assert (first.wait(60), second.wait(60)) == (0, 0)
    assert sum(path.startswith("/files/") for path in world.index.asked) == 1
