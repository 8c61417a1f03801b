"""Eight nodes as processes share a limit: half are cut off in turns, killed and started anew under the same name, the
store is flushed, killed and started again, and rules change a hundred times a second. What they admitted beyond the
limit stands beside the bound of docs/quota.md, in figures.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from engine.core.errors import Unavailable
from engine.core.store import open_client
from engine.quota import Book, Rule, Whose
from engine.quota.planes.redis import RedisControlPlane
from engine.quota.protocol import LIFETIME_S
from hbus_console.state import ROOT
from hbus_console.supervisor.standalone import StandaloneStore
from tests.chaos.quota_process import SLOT_S
from tests.form import size

pytestmark = pytest.mark.chaos

NODES, LIMIT, BURST, SHARE = 8, 1_000.0, 200.0, 0.5
#: All of them together ask for so many times the limit.
TIMES = 3.0
#: How long each thing goes on, in seconds.
PHASE_S = size(12.0, short=7.0)
CHANGES_S = 100
#: What nodes hold prepaid at any moment: a fifth of a second of the limit; who asks for little, a few tokens more.
PREPAID = 0.2 * LIMIT + 16 * NODES
ALL = Rule(id="all", limit=LIMIT, burst=BURST, fallback=SHARE, whose=Whose.TOGETHER)
EPOCH_S = 600.0


class Wall:
    """A way to the store that is open, shut (nothing comes through), or deaf: questions come through, and no answer."""

    def __init__(self, port: int) -> None:
        self.state = "open"
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def put(self, state: str) -> None:
        self.state = state
        if state == "shut":
            self._drop()

    def close(self) -> None:
        self.state = "shut"
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._drop()

    def _drop(self) -> None:
        kept, self._open = self._open, []
        for each in kept:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    store = None if self.state == "shut" else socket.create_connection(("127.0.0.1", self._target))
                except OSError:
                    store = None
                if store is None:
                    client.close()
                    continue
                self._open += [client, store]
                threading.Thread(target=self._carry, args=(client, store, False), daemon=True).start()
                threading.Thread(target=self._carry, args=(store, client, True), daemon=True).start()

    def _carry(self, source: socket.socket, to: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                if not (answers and self.state == "deaf"):
                    to.sendall(data)
        for each in (source, to):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


class Nodes:
    """The processes, and what each admitted when."""

    def __init__(self, folder: Path, store: StandaloneStore) -> None:
        self.store = store
        self.prefix = "chaos"
        self.client = open_client(store.url)
        self.plane = RedisControlPlane(self.client, self.prefix)
        self.book = Book(version=1, rules=(ALL,), nodes=NODES)
        self.plane.keep_rules(*self.book.kept())
        self.began = time.monotonic()
        self.walls = [Wall(store.port) for _ in range(NODES)]
        self.files = [folder / f"n{number}" for number in range(NODES)]
        for file in self.files:
            file.write_bytes(struct.pack("d", self.began) + bytes(8 * round(EPOCH_S / SLOT_S)))
        self.kills = 0
        self.processes = [self._start(number) for number in range(NODES)]

    def kill(self, number: int) -> None:
        """SIGKILL, and anew under the same name."""
        self.processes[number].kill()
        self.processes[number].wait()
        self.kills += 1
        self.processes[number] = self._start(number)

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        for wall in self.walls:
            wall.close()
        self.client.close()

    def now(self) -> int:
        """The slot that goes on."""
        return int((time.monotonic() - self.began) / SLOT_S)

    def admitted(self, since: int, until: int, numbers: Sequence[int] = range(NODES)) -> list[int]:
        """In each slot, by these nodes together."""
        total = [0] * (until - since)
        for number in numbers:
            with self.files[number].open("rb") as file:
                file.seek(8 * (1 + since))
                for at, (count,) in enumerate(struct.iter_unpack("q", file.read(8 * (until - since)))):
                    total[at] += count
        return total

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        url = self.store.url.replace(f":{self.store.port}", f":{self.walls[number].port}")
        book = msgspec.json.encode(self.book).decode()
        return subprocess.Popen(
            [
                sys.executable, "-m", "tests.chaos.quota_process", url, self.prefix, f"n{number}",
                str(TIMES * LIMIT / NODES), book, str(self.files[number]),
            ],
            cwd=ROOT,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    store = StandaloneStore(tmp_path / "store", fsync="always").start()
    made = Nodes(tmp_path, store)
    yield made
    made.end()
    store.kill()


def pause(seconds: float) -> None:
    threading.Event().wait(seconds)


def most_in_a_window(slots: Sequence[int], rate: float) -> float:
    """The most that any run of them has beyond ``rate`` a second."""
    beyond = most = 0.0
    for count in slots:
        beyond = max(0.0, beyond) + count - rate * SLOT_S
        most = max(most, beyond)
    return most


def reached(nodes: Nodes, seconds: float = 2.0) -> float:
    """What they admitted in the last seconds, of the limit."""
    until = nodes.now()
    return sum(nodes.admitted(until - round(seconds / SLOT_S), until)) / (LIMIT * seconds)


def test_whatever_befalls_eight_nodes_they_admit_no_more_than_the_bound(nodes: Nodes) -> None:
    lines: list[str] = []

    def judged(what: str, since: int, cut: int, more: float = 0.0) -> float:
        """Beside the bound: the limit, what ``cut`` nodes may spend alone, and what may be had at once."""
        slots = nodes.admitted(since, nodes.now())
        rate = LIMIT * (1 + SHARE * cut / NODES)
        ratio = sum(slots) / (LIMIT * len(slots) * SLOT_S)
        beyond, most = most_in_a_window(slots, rate), BURST + PREPAID + cut + more
        lines.append(
            f"{what}: {sum(slots):,} in {len(slots) * SLOT_S:.1f} s, {ratio:.3f} of the limit (bound"
            f" {rate / LIMIT:.3f} in the long run); in any window at most {beyond:.0f} beyond it, of {most:.0f}"
        )
        assert beyond <= most, "\n".join(lines)
        return ratio

    # Until all have asked: before that they are fewer than the book says.
    for _ in range(600):
        pause(0.1)
        if nodes.client.zcard(f"{nodes.prefix}:{{quota}}:nodes:all/") == NODES:
            break
    pause(1)
    since = nodes.now()
    pause(PHASE_S)
    # Those who come once hold what they were granted for as long as a permit lasts.
    assert judged("all reach the store", since, 0) > 0.8

    # Every half in its turn, now without any way and now without answers; the first two of it die meanwhile.
    since, kills = nodes.now(), nodes.kills
    for turn in range(4):
        half = range(NODES // 2) if turn % 2 == 0 else range(NODES // 2, NODES)
        for number in half:
            nodes.walls[number].put("shut" if turn < 2 else "deaf")
        pause(PHASE_S / 4)
        for number in list(half)[:2]:
            nodes.kill(number)
        pause(PHASE_S / 4)
        for number in half:
            nodes.walls[number].put("open")
        pause(PHASE_S / 4)
    # Each life has a token of its own to begin with, and each time it is cut off it has one at most.
    ratio = judged("half cut off in turns, two of each killed", since, NODES // 2, 4.0 * NODES + nodes.kills - kills)
    assert ratio > 0.5

    for number in range(NODES // 2):
        nodes.walls[number].put("shut")
    pause(LIFETIME_S + 1)
    since = nodes.now()
    pause(PHASE_S)
    ratio = judged("half cut off for long", since, NODES // 2)
    assert ratio > 1.02, "the others reach the limit, and those that are cut off go on beside them"
    alone = sum(nodes.admitted(since, nodes.now(), range(NODES // 2)))
    lines.append(f"  of these the cut-off half admitted {alone:,}, each request in ten of a tenant never seen before")
    for wall in nodes.walls:
        wall.put("open")
    pause(LIFETIME_S)

    since = nodes.now()
    nodes.client.flushall()
    pause(PHASE_S)
    # Until somebody has put the rules back all are as if cut off.
    judged("the store is flushed", since, 0, SHARE * LIMIT + NODES)
    assert reached(nodes) > 1.2 * SHARE, "somebody has put the rules back"

    since = nodes.now()
    nodes.store.kill()
    pause(PHASE_S / 2)
    away = nodes.admitted(since + round(1 / SLOT_S), nodes.now())
    nodes.store.start()
    pause(PHASE_S / 2)
    judged("the store is killed and started again", since, 0, SHARE * LIMIT)
    assert reached(nodes) > 1.2 * SHARE, "all are back: alone they would admit their share"
    lines.append(
        f"  without it they admitted {sum(away) / (LIMIT * len(away) * SLOT_S):.3f} of the limit, of {SHARE:.3f}"
    )

    since, first, began = nodes.now(), nodes.plane.version(), time.monotonic()
    version = first
    while (passed_s := time.monotonic() - began) < PHASE_S / 2:
        if version - first > passed_s * CHANGES_S:
            pause(1 / CHANGES_S)
            continue
        version += 1
        other = Rule(id="other", limit=float(version), burst=1.0, tenant=f"t{version % 50 + 100}")
        kept, known = Book(version=version, rules=(ALL, other), nodes=NODES).kept()
        with contextlib.suppress(Unavailable):
            nodes.plane.keep_rules(kept, known)
    changes_s = (version - first) / passed_s
    assert judged(f"{version - first:,} versions of the rules, {changes_s:.0f} a second", since, 0) > 0.8

    limit = LIMIT / 10
    narrow = Rule(id="all", limit=limit, burst=BURST / 10, fallback=SHARE, whose=Whose.TOGETHER)
    nodes.plane.keep_rules(*Book(version=version + 1, rules=(narrow,), nodes=NODES).kept())
    pause(1)
    obeyed = nodes.now()
    pause(3)
    slots = nodes.admitted(obeyed, nodes.now())
    lines.append(
        f"a tenth of the limit: a second later {sum(slots) / (len(slots) * SLOT_S):.0f} a second, of {limit:.0f}"
    )
    assert sum(slots) <= limit * len(slots) * SLOT_S * 1.1 + BURST / 10 + 16 * NODES
    print("\n" + "\n".join(lines) + f"\n{nodes.kills} processes killed and started anew")
