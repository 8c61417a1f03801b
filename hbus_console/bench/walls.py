"""Where the time of a message goes: in our process, in the server, and in what the server does for it step by step.

Rates tell who is faster; these tell why. Processor time is counted, so that a busy machine blurs it less than rates.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import psutil
import redis

from engine.bus.partitions import DEFAULT_PARTITIONS
from engine.core.errors import ConfigurationError
from hbus_console.bench.beside_nsq import WITHOUT_COPIES, NsqWork
from hbus_console.bench.beside_redis import RedisWork
from hbus_console.bench.ours import envelope_size
from hbus_console.bench.processes import Work
from hbus_console.bench.rig import Rig

#: Messages in one call of a step, as in the bench's batches.
BATCH = 500
#: The size of an envelope around a payload of 200 B, about.
BODY = b"x" * 600

#: What makes a work ready to be run.
Ready = Callable[[], Work]


@dataclass(frozen=True)
class Cost:
    """Microseconds a message, the best of some runs."""

    wall: float
    process: float
    server: float

    def cells(self) -> tuple[str, str, str]:
        return f"{self.wall:.2f}", f"{self.process:.2f}", f"{self.server:.2f}"


def paths(rig: Rig, only: str = "") -> Iterator[Sequence[str]]:
    """A line for each way of a message whose name contains ``only``, ours and its peer's, under a head."""
    yield ("µs a message", "wall", "process", "server", "peer: wall", "process", "server")
    work, store = RedisWork(rig), rig.store.pid
    size = envelope_size(rig.size)
    single = max(500, rig.count // 5)
    ways: list[tuple[str, Ready, Ready]] = [
        ("publish in batches of 500", work.publish, work.raw_publish),
        ("… the peer with bodies as long", work.publish, lambda: work.raw_publish(size=size)),
        (
            "publish one by one",
            lambda: work.publish(do="publish singly", count=single),
            lambda: work.raw_publish(do="publish singly", count=single),
        ),
        ("consume and settle", work.consume, work.raw_consume),
        ("publish with order", lambda: work.publish(partitions=DEFAULT_PARTITIONS), work.raw_publish),
        ("consume with order", lambda: work.consume(partitions=DEFAULT_PARTITIONS), work.raw_consume),
    ]
    for what, ours, theirs in _wanted(ways, only):
        yield (what, *_best(rig, ours, store).cells(), *_best(rig, theirs, store).cells())
    try:
        nsqd = rig.nsqd.pid
    except ConfigurationError as error:
        yield (f"NSQ: {error.what}", *("-",) * 6)
        return
    nsq = NsqWork(rig)
    through_nsq: list[tuple[str, Ready, Ready]] = [
        ("publish in batches, NSQ", nsq.publish, nsq.raw_publish),
        ("… the peer with bodies as long", nsq.publish, lambda: nsq.raw_publish(size=size)),
        ("consume and settle, NSQ", nsq.consume, nsq.raw_consume),
    ]
    for what, ours, theirs in _wanted(through_nsq, only):
        yield (what, *_best(rig, ours, nsqd).cells(), *_best(rig, theirs, nsqd).cells())
    # Copies are the store's work.
    with_copies: list[tuple[str, Ready, Ready]] = [
        (f"publish, NSQ and its store; peer: {WITHOUT_COPIES}", nsq.publish, lambda: nsq.publish(keep="never")),
        (f"consume, NSQ and its store; peer: {WITHOUT_COPIES}", nsq.consume, lambda: nsq.consume(keep="never")),
    ]
    for what, ours, theirs in _wanted(with_copies, only):
        yield (what, *_best(rig, ours, nsqd, store).cells(), *_best(rig, theirs, nsqd, store).cells())


def _wanted(ways: Sequence[tuple[str, Ready, Ready]], only: str) -> Iterator[tuple[str, Ready, Ready]]:
    return (way for way in ways if only.casefold() in way[0].casefold())


def _best(rig: Rig, ready: Ready, *servers: int) -> Cost:
    """The least of each figure: what disturbs a run only adds."""
    costs = [_once(ready(), [psutil.Process(each) for each in servers]) for _ in range(rig.samples)]
    return Cost(
        min(each.wall for each in costs), min(each.process for each in costs), min(each.server for each in costs)
    )


def _once(work: Work, servers: Sequence[psutil.Process]) -> Cost:
    before = _spent(*servers)
    span = work.run()
    each = 1e6 / span.messages
    return Cost((span.ended - span.started) * each, span.cpu_s * each, (_spent(*servers) - before) * each)


def _spent(*processes: psutil.Process) -> float:
    return sum(float(times.user + times.system) for times in (each.cpu_times() for each in processes))


#: What the scripts of a group do in the store, a step more in each line. KEYS: stream, leases; ARGV: group, the rest.
_READ = "local reply = redis.call('XREADGROUP', 'GROUP', ARGV[1], 'c', 'COUNT', 500, %s'STREAMS', KEYS[1], '>') "
_FLAT = (
    "local ids, bodies, leases = {}, {}, {} for i, entry in ipairs(reply[1][2]) do ids[i] = entry[1] "
    "bodies[i] = entry[2][2] leases[2 * i - 1] = 1790000000000 leases[2 * i] = entry[1] end "
)
_LEASE = "redis.call('ZADD', KEYS[2], unpack(leases)) "
_ACK = "redis.call('XACK', KEYS[1], ARGV[1], unpack(ARGV, 2)) "
_DROP = "redis.call('ZREM', KEYS[2], unpack(ARGV, 2)) "


def steps(rig: Rig) -> Iterator[Sequence[str]]:
    """A line for each step in the store, under a head."""
    yield ("server, µs a message", "with the log", "without")
    reads = {
        "XREADGROUP by itself": None,
        "in a script, nothing returned": _READ % "" + "return 1",
        "… answered as flat lists": _READ % "" + _FLAT + "return {ids, bodies}",
        "… and leased (what receive.lua does)": _READ % "" + _FLAT + _LEASE + "return {ids, bodies}",
        "… the same without a pending list (NOACK)": _READ % "'NOACK', " + _FLAT + _LEASE + "return {ids, bodies}",
    }
    for what, text in reads.items():
        yield (what, *[f"{_step(rig, _reading(rig, text), log):.2f}" for log in ("yes", "no")])
    acks = {
        "XACK by itself": None,
        "in a script": _ACK + "return 1",
        "… and the lease dropped (what settle.lua does)": _ACK + _DROP + "return 1",
    }
    for what, text in acks.items():
        yield (what, *[f"{_step(rig, _acking(rig, text), log):.2f}" for log in ("yes", "no")])


#: Makes a step ready, and runs it.
Step = Callable[[], Iterator[None]]


def _step(rig: Rig, step: Step, log: str) -> float:
    rig.client.config_set("appendonly", log)
    server, best = psutil.Process(rig.store.pid), float("inf")
    for _ in range(rig.samples):
        running = step()
        next(running)
        before = _spent(server)
        next(running, None)
        best = min(best, _spent(server) - before)
    rig.client.config_set("appendonly", "yes")
    return best / rig.count * 1e6


def _fill(rig: Rig) -> None:
    rig.clean()
    rig.client.xgroup_create("s", "g", id="0", mkstream=True)
    for _ in range(rig.count // BATCH):
        pipeline = rig.client.pipeline(transaction=False)
        for _ in range(BATCH):
            pipeline.xadd("s", {"event": BODY})
        pipeline.execute()


def _reading(rig: Rig, text: str | None) -> Step:
    def step() -> Iterator[None]:
        _fill(rig)
        yield
        for _ in range(rig.count // BATCH):
            _read(rig.client, text)

    return step


def _acking(rig: Rig, text: str | None) -> Step:
    def step() -> Iterator[None]:
        _fill(rig)
        taken = [_read(rig.client, _READ % "" + _FLAT + _LEASE + "return ids") for _ in range(rig.count // BATCH)]
        yield
        for ids in taken:
            _ack(rig.client, text, ids)

    return step


def _read(client: redis.Redis, text: str | None) -> Any:
    if text is None:
        return client.xreadgroup("g", "c", {"s": ">"}, count=BATCH)
    return client.eval(text, 2, "s", "leases", "g")


def _ack(client: redis.Redis, text: str | None, ids: Sequence[bytes]) -> Any:
    if text is None:
        return client.xack("s", "g", *ids)
    return client.eval(text, 2, "s", "leases", "g", *ids)


def conditions(rig: Rig) -> str:
    """Under what the figures were had."""
    return f"{rig.conditions}, load {os.getloadavg()[0]:.1f}; the least of each; processor time but for the wall's"
