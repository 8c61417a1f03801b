"""Audits of a lake, ours beside those of engines that read the same files; who finds otherwise is no peer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from hbus_console.bench.pipeline_agreement import difference, unlike_planted
from hbus_console.bench.pipeline_rig import PipelineRig, forget_sides
from hbus_console.bench.rig import Measurement
from hbus_console.bench.rows import Row, missing

AREA = "pipeline"
#: Of ten million events, seconds: one that finds no sides, and one that finds all but those of one commit more.
GOAL_COLD_S, GOAL_MORE_S, OF_EVENTS = 10.0, 2.0, 10_000_000
#: Peer -> the module that it needs, and the program that audits by it.
PEERS = {"DuckDB": ("duckdb", "peers.duckdb_audit"), "Polars": ("polars", "peers.polars_audit")}
#: How many times as many events the larger lake has.
TIMES = 5

Audited = dict[str, Any]


def measurements(rig: PipelineRig, *, larger: bool = True) -> Iterator[Measurement]:
    """Of audits; ``larger`` is the one of a lake that is so many times as large."""
    cold = f"audit of {rig.events:,} events, no side computed"
    for peer in PEERS:
        yield Measurement(f"{cold}, beside {peer}", partial(_cold, rig, f"{cold}, beside {peer}", peer))
    more = f"audit of {rig.events:,} events and a commit more"
    for peer in PEERS:
        yield Measurement(f"{more}, beside {peer}", partial(_more, rig, f"{more}, beside {peer}", peer))
    cores = f"{cold}, 2 cores beside 1"
    yield Measurement(cores, partial(_cores, rig, cores))
    if larger:
        times = f"audit of {TIMES * rig.events:,} events, no side computed, beside one of {rig.events:,}"
        yield Measurement(times, partial(_larger, rig, times))


def _cold(rig: PipelineRig, what: str, peer: str) -> Row:
    def ours() -> Audited:
        forget_sides(rig.lake)
        return rig.audited(rig.lake, rig.events)

    return _beside(rig, what, peer, ours, goal=GOAL_COLD_S * rig.events / OF_EVENTS)


def _more(rig: PipelineRig, what: str, peer: str) -> Row:
    """A peer keeps nothing of what it read, and reads all again."""
    rig.audited(rig.lake, rig.events)

    def ours() -> Audited:
        rig.add_commit()
        return rig.audited(rig.lake, rig.events)

    also = f"; the commit has {rig.added:,} messages, and the peer reads all files again"
    return _beside(rig, what, peer, ours, goal=GOAL_MORE_S * rig.events / OF_EVENTS, also=also)


def _beside(rig: PipelineRig, what: str, peer: str, ours: Callable[[], Audited], *, goal: float, also: str = "") -> Row:
    module, program = PEERS[peer]
    conditions = (
        f"{rig.conditions}{also}; the goal is of our seconds, and in proportion to that of {OF_EVENTS:,} events"
    )
    if find_spec(module) is None:
        found = ours()
        return missing(
            AREA, what, "s", ours=found["took_s"], peer=peer, why="not installed", conditions=conditions, goal=goal
        )
    pairs = [(ours(), rig.audited(rig.lake, rig.events, by=program)) for _ in range(rig.samples)]
    mine, other = (median(each[side]["took_s"] for each in pairs) for side in (0, 1))
    said = f"{conditions}; ours at most {_spent(pairs, 0)}, the peer {_spent(pairs, 1)}"
    for one, another in pairs:
        if (why := unlike_planted(one) or difference(one, another)) != "":
            # What compares otherwise is not compared with.
            return Row(AREA, what, "s", mine, f"{peer} found otherwise: {why}", None, None, goal, False, 1, said)
    return Row(AREA, what, "s", mine, peer, other, mine / other, goal, mine <= goal, rig.samples, said)


def _cores(rig: PipelineRig, what: str) -> Row:
    def took_s(cores: int) -> float:
        forget_sides(rig.lake)
        return float(rig.audited(rig.lake, rig.events, cores=cores)["took_s"])

    pairs = [(took_s(2), took_s(1)) for _ in range(rig.samples)]
    return _of_ours(rig, what, pairs, "ours on one core", "")


def _larger(rig: PipelineRig, what: str) -> Row:
    larger = rig.lake_of(TIMES * rig.events)

    def took_s(root: Path, events: int) -> float:
        forget_sides(root)
        return float(rig.audited(root, events)["took_s"])

    pairs = [(took_s(larger, TIMES * rig.events), took_s(rig.lake, rig.events)) for _ in range(rig.samples)]
    return _of_ours(rig, what, pairs, f"ours of {rig.events:,}", f"; {TIMES} times as many events")


def _of_ours(rig: PipelineRig, what: str, pairs: list[tuple[float, float]], peer: str, also: str) -> Row:
    mine, other = median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)
    return Row(AREA, what, "s", mine, peer, other, mine / other, None, None, rig.samples, f"{rig.conditions}{also}")


def _spent(pairs: list[tuple[Audited, Audited]], side: int) -> str:
    """Memory, and the processor's time, which neighbours blur less than seconds of the wall."""
    most, cpu_s = (max(each[side][name] for each in pairs) for name in ("most_bytes", "cpu_s"))
    return f"{most // 2**20:,} MB and {cpu_s:.1f} s of a processor"
