"""Eight nodes as processes share a limit: half of them cut off in turns, some killed and started anew under their
names, the store flushed, killed and started again. What they admitted is held against the bound of ``docs/quota.md``.

``make chaos PYTEST="-k quota"`` prints the figures of the whole form.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from engine.core.store import open_client
from engine.quota import Book, Rule, Source
from engine.quota.planes.redis import RedisControlPlane
from hbus_console.supervisor.standalone import StandaloneStore
from tests.chaos.form import size
from tests.engine.bus.transports.proxy import Proxy

pytestmark = pytest.mark.chaos

NODES = 8
LIMIT, BURST, FALLBACK = 400.0, 200.0, 0.1
PREFIX = "chaos"
#: How long each part lasts, in seconds.
PART_S = size(10.0, short=2.5)
#: A node that was cut off spends what it holds, and knows only then; what it holds is for a fifth of a second, or for a
#: permit's life where it asks little. One that is back again has to be answered first.
SETTLES_S = 1.5
#: The store writes every second: what it sold in the last one before it was killed it may sell again.
FSYNC_S = 1.0


@dataclass
class Member:
    """One of the nodes, through all of its lives."""

    name: str
    proxy: Proxy
    url: str
    #: When, how many, and from where.
    told: list[tuple[float, int, str]] = field(default_factory=list)
    process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.chaos.quota_node", self.url, PREFIX, self.name]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        ready = threading.Event()
        threading.Thread(target=self._hear, args=(self.process, ready), daemon=True).start()
        assert ready.wait(60), f"{self.name} does not come up"

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def _hear(self, process: subprocess.Popen[str], ready: threading.Event) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line == "ready\n":
                ready.set()
                continue
            second, admitted, source = line.split()
            self.told.append((float(second), int(admitted), source))

    def admitted(self, begin: float, end: float) -> int:
        return sum(count for second, count, _ in self.told if begin <= second < end)

    def sources(self, begin: float, end: float) -> set[str]:
        return {source for second, _, source in self.told if begin <= second < end}


def test_nodes_that_are_cut_off_killed_and_flushed_admit_no_more_than_the_bound(own_store: StandaloneStore) -> None:
    rule = Rule(id="all", limit=LIMIT, burst=BURST, fallback=FALLBACK)
    book = Book(version=1, rules=(rule,), nodes=NODES)
    plane = RedisControlPlane(open_client(own_store.url), PREFIX)
    assert plane.keep_rules(*book.kept())
    halves = [Proxy(own_store.port), Proxy(own_store.port)]
    urls = [own_store.url.replace(f":{own_store.port}", f":{proxy.port}") for proxy in halves]
    members = [Member(f"node-{n}", halves[n % 2], urls[n % 2]) for n in range(NODES)]
    for member in members:
        member.start()
    try:
        spans = _play(own_store, halves, members)
    finally:
        for member in members:
            member.kill()
        for proxy in halves:
            proxy.close()
    _judge(spans, members)


def _play(store: StandaloneStore, halves: list[Proxy], members: list[Member]) -> dict[str, tuple[float, float]]:
    """What happens, part after part; when each began and ended."""
    spans: dict[str, tuple[float, float]] = {}

    def part(name: str, *acts: Callable[[], object]) -> None:
        began = time.time()
        for act in acts:
            act()
        time.sleep(max(0.0, began + PART_S - time.time()))
        spans[name] = began, time.time()

    def mode(half: int, mode: str) -> Callable[[], None]:
        def change() -> None:
            halves[half].mode = mode  # type: ignore[assignment]
            if mode == "cut":
                halves[half].cut()

        return change

    part("together")
    # Their questions reach the store still, which sells them what they never hear of.
    part("half unheard", mode(0, "mute"))
    part("other half cut", mode(0, "pass"), halves[0].cut, mode(1, "cut"))
    part("all cut", mode(0, "cut"))
    part("back", mode(0, "pass"), mode(1, "pass"))
    part("two killed", members[0].kill, members[1].kill, members[0].start, members[1].start)
    part("flushed", open_client(store.url).flushall)
    part("store killed", store.kill, store.start)
    return spans


def _judge(spans: dict[str, tuple[float, float]], members: list[Member]) -> None:
    begin, end = spans["together"][0], spans["store killed"][1]
    alone_s = 0.0
    print(f"\n{NODES} nodes, {LIMIT:g}/s, burst {BURST:g}, fallback {FALLBACK:g}, parts of {PART_S:g} s")
    for name, (since, until) in spans.items():
        cut = {"half unheard": members[0::2], "other half cut": members[1::2], "all cut": members}.get(name, [])
        took_s = until - since
        admitted = sum(member.admitted(since, until) for member in members)
        # Cut off, they spend the fallback's part; and what each held, and a token each.
        alone = FALLBACK * LIMIT * len(cut) / NODES * took_s + len(cut)
        alone_s += alone
        sold = 0.0 if len(cut) == NODES else LIMIT * took_s + BURST
        bound = sold + alone + LIMIT * SETTLES_S + (LIMIT * FSYNC_S if name == "store killed" else 0.0)
        by_cut = sum(member.admitted(since + SETTLES_S, until) for member in cut)
        of_cut = FALLBACK * LIMIT * len(cut) / NODES * (took_s - SETTLES_S) + len(cut)
        print(
            f"  {name:<15} {admitted:>6,} admitted of {bound:>6,.0f}, {admitted / (LIMIT * took_s):.2f} of the limit"
            + (f"; by the {len(cut)} cut off {by_cut:,} of {of_cut:,.0f}" if cut else "")
        )
        assert admitted <= bound, name
        if cut:
            assert by_cut <= of_cut + 1, f"{name}: those that were cut off"
            stood_in = [member for member in cut if Source.FALLBACK.value in member.sources(since + SETTLES_S, until)]
            assert len(stood_in) == len(cut), f"{name}: not all knew it"
        elif name in ("together", "back"):
            assert admitted >= 0.7 * LIMIT * took_s, f"{name}: they get less than there is"
    whole = sum(member.admitted(begin, end) for member in members)
    bound = LIMIT * (end - begin) + BURST + alone_s + NODES + LIMIT * FSYNC_S
    print(f"  {'in all':<15} {whole:>6,} admitted of {bound:>6,.0f} in {end - begin:.0f} s")
    assert whole <= bound
