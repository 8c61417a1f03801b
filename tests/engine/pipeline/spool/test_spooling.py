"""From a real nsqd into a spool: finished only once it is on disk, once each, whoever fails at whatever moment."""

from __future__ import annotations

import errno
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from engine.bus import BusConfig, GroupLost, Outgoing, open_transport
from engine.core.clock import ManualClock
from engine.core.errors import Unavailable
from engine.pipeline.source.planning import plan
from engine.pipeline.spool.errors import SpoolBusy
from engine.pipeline.spool.reading import LOG, SpoolReader
from engine.pipeline.spool.spooling import GROUP, Moved, Spooler, can_be_spooled, make_group
from engine.pipeline.spool.writer import SpoolWriter
from hbus_console.supervisor.standalone_nsqd import StandaloneNsqd

TOPIC = "booking.created"
LEASE_MS = 500
PATIENCE_S = 60.0


class Rig:
    """A topic on nsqd and a folder for its spool."""

    def __init__(self, url: str, nsqd: str, prefix: str, root: Path, **options: str) -> None:
        self.transport = open_transport(BusConfig("nsq", url, prefix, {"nsqd": nsqd, **options}))
        self.root = root
        self.transport.admin.create_topic(TOPIC)
        make_group(self.transport, TOPIC)
        self._spoolers: list[Spooler] = []

    def publish(self, *numbers: int) -> None:
        outcomes = self.transport.publish(TOPIC, [Outgoing(f"m{each}", b"m%d" % each) for each in numbers])
        assert all(outcome.status == "ok" for outcome in outcomes)

    def spooler(self, consumer: str = "one") -> Spooler:
        made = Spooler(self.transport, TOPIC, self.root, consumer=consumer, lease_ms=LEASE_MS)
        self._spoolers.append(made)
        return made

    def held(self) -> Counter[bytes]:
        reader = SpoolReader(self.root)
        extents = reader.extents(TOPIC)
        found = reader.stretch(TOPIC, LOG, "", upto=extents[0].last, limit=10**6).bodies if extents else []
        reader.close()
        return Counter(found)

    def unsettled(self) -> int | None:
        return self.transport.admin.lag(TOPIC, GROUP).unsettled

    def close(self) -> None:
        for each in self._spoolers:
            each.close()
        self.transport.close()


def numbered(numbers: Sequence[int]) -> Counter[bytes]:
    return Counter(b"m%d" % number for number in numbers)


def until(holds: Callable[[], object]) -> None:
    """nsqd has a life of its own."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)


@pytest.fixture
def rig(redis_url: str, nsqd_url: str, prefix: str, tmp_path: Path) -> Iterator[Rig]:
    made = Rig(redis_url, nsqd_url, prefix, tmp_path)
    yield made
    made.transport.admin.delete_topic(TOPIC)
    made.close()


def turn(spooler: Spooler, moved: Moved) -> Moved:
    """One more, counted with those before."""
    now = spooler.turn(5.0)
    moved.messages += now.messages
    moved.repeats += now.repeats
    moved.lost += now.lost
    return moved


def goes_on(spooler: Spooler, moved: Moved) -> bool:
    """Whether nsqd was there for one more."""
    try:
        turn(spooler, moved)
    except Unavailable:
        return False
    return True


def is_noted(server: StandaloneNsqd) -> bool:
    """Whether nsqd has noted that the channel's file is read to its end."""
    notes = [each for each in server.folder.glob("*.diskqueue.meta.dat") if GROUP in each.name]
    return bool(notes) and all(each.read_text().split("\n")[0] == "0" for each in notes)


def turn_until_unavailable(spooler: Spooler) -> None:
    until(lambda: not spooler.turn(1.0))


def test_what_waits_is_on_disk_and_finished_in_nsqd(rig: Rig) -> None:
    rig.publish(*range(1_200))
    spooler, moved = rig.spooler(), Moved()
    until(lambda: turn(spooler, moved).messages == 1_200)
    assert rig.held() == numbered(range(1_200))
    until(lambda: rig.unsettled() == 0)


def test_who_handles_the_topic_gets_all_of_it_too(rig: Rig) -> None:
    rig.transport.admin.create_group(TOPIC, "billing")
    rig.publish(*range(20))
    receiver, taken = rig.transport.receiver(TOPIC, "billing", consumer="c", lease_ms=5_000), 0
    spooler, moved = rig.spooler(), Moved()
    until(lambda: turn(spooler, moved).messages == 20)
    while taken < 20:
        taken += len(receiver.receive(20, 5.0))
    receiver.close()


def test_what_was_on_disk_and_not_finished_comes_again_and_is_known(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.publish(*range(100))
    dies = rig.spooler("dies")
    with monkeypatch.context() as patched:
        # Between disk and finishing, as a process that is killed there.
        write = SpoolWriter.append

        def writes_and_dies(writer: SpoolWriter, messages: Sequence[object]) -> int:
            write(writer, messages)  # type: ignore[arg-type]
            raise KeyboardInterrupt

        patched.setattr(SpoolWriter, "append", writes_and_dies)
        with pytest.raises(KeyboardInterrupt):
            dies.turn(5.0)
    assert sum(rig.held().values()) > 0
    dies.close()

    spooler, moved = rig.spooler("other"), Moved()
    until(lambda: turn(spooler, moved) and rig.unsettled() == 0)

    assert moved.repeats > 0
    assert rig.held() == numbered(range(100))


def test_a_full_disk_finishes_nothing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.publish(*range(50))
    spooler, moved = rig.spooler(), Moved()
    spooler.turn(0.0)
    with monkeypatch.context() as patched:

        def is_full(descriptor: int, data: bytes, at: int) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        patched.setattr(os, "pwrite", is_full)
        for _ in range(3):
            with pytest.raises(OSError, match="No space"):
                spooler.turn(5.0)
    assert rig.unsettled() == 50
    assert not rig.held()

    until(lambda: turn(spooler, moved).messages == 50)
    assert rig.held() == numbered(range(50))


def test_two_at_once_do_no_harm(rig: Rig) -> None:
    one, other = rig.spooler("one"), rig.spooler("other")
    rig.publish(*range(300))
    writer = SpoolWriter(rig.root, TOPIC)
    with writer.held(), pytest.raises(SpoolBusy):
        other.turn(1.0)
    moved = Moved()
    for _ in range(4):
        turn(one, moved)
        turn(other, moved)
    until(lambda: turn(one, moved) and turn(other, moved) and rig.unsettled() == 0)
    assert rig.held() == numbered(range(300))
    assert moved.messages == 300


def test_a_group_that_is_gone_is_told_and_not_made_in_passing(rig: Rig) -> None:
    spooler, moved = rig.spooler(), Moved()
    rig.publish(1)
    until(lambda: turn(spooler, moved).messages == 1)
    rig.transport.admin.delete_group(TOPIC, GROUP)
    for each in (spooler, spooler, rig.spooler()):
        with pytest.raises(GroupLost):
            each.turn(1.0)
    assert rig.transport.admin.groups(TOPIC) == []
    assert rig.transport.admin.depth(TOPIC).messages == 0

    make_group(rig.transport, TOPIC)
    rig.publish(2)
    until(lambda: turn(spooler, moved).messages == 2)
    assert rig.held() == numbered([1, 2])


def test_while_nsqd_is_away_it_says_so_and_goes_on_afterwards(
    redis_url: str, own_nsqd: StandaloneNsqd, prefix: str, tmp_path: Path
) -> None:
    rig = Rig(redis_url, own_nsqd.url, prefix, tmp_path / "spool")
    spooler, moved = rig.spooler(), Moved()
    rig.publish(1)
    until(lambda: turn(spooler, moved).messages == 1)
    own_nsqd.kill()
    with pytest.raises(Unavailable):
        turn_until_unavailable(spooler)
    own_nsqd.start()
    rig.publish(2)

    until(lambda: goes_on(spooler, moved) and rig.held() == numbered([1, 2]))
    rig.close()


def test_what_the_transport_says_it_has_lost_is_missing_of_the_count(
    redis_url: str, own_nsqd: StandaloneNsqd, prefix: str, tmp_path: Path
) -> None:
    rig = Rig(redis_url, own_nsqd.url, prefix, tmp_path / "spool", keep="never")
    # Somebody has five in hand, and nsqd has noted that it has read its file to the end: it sends none of them again.
    rig.publish(*range(5))
    dying = Rig(redis_url, own_nsqd.url, prefix, tmp_path / "none", keep="never")
    holder = dying.transport.receiver(TOPIC, GROUP, consumer="holder", lease_ms=LEASE_MS)
    held = 0
    while held < 5:
        held += len(holder.receive(5 - held, 5.0))
    until(lambda: is_noted(own_nsqd))
    own_nsqd.kill()
    own_nsqd.start()
    spooler, moved = rig.spooler(), Moved()

    until(lambda: goes_on(spooler, moved) and moved.lost == 5)
    rig.publish(*range(5, 8))
    until(lambda: goes_on(spooler, moved) and moved.messages == 3)

    (extent,) = SpoolReader(rig.root).extents(TOPIC)
    assert (extent.added, extent.held) == (8, 3)
    assert rig.held() == numbered(range(5, 8))
    (loss,) = plan({}, [extent]).losses
    assert loss.messages == 5
    dying.close()
    rig.close()


def test_only_what_nobody_can_read_again_needs_a_spool(rig: Rig, redis_url: str, prefix: str) -> None:
    assert can_be_spooled(rig.transport)
    streams = open_transport(BusConfig("redis_stream", redis_url, prefix))
    memory = open_transport(BusConfig("memory"), ManualClock())
    # One can be read again by itself, the other is gone with its process.
    assert not can_be_spooled(streams)
    assert not can_be_spooled(memory)
    streams.close()
    memory.close()
