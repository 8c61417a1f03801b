"""Who is alive is said once: what the overview, a subscription and an act hold for silent is the same."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from engine.core.clock import SystemClock
from hbus_console.cluster import live as cluster_live
from hbus_console.cluster.services import living
from hbus_console.nodes.beat import NodeBeat
from hbus_console.nodes.stamps import STILL_AFTER_MS, Node
from hbus_console.state import ROOT
from hbus_console.subscriptions.standing import served
from hbus_console.supervisor import status
from hbus_console.wiring import store

PAIR = ("booking.created", "billing")
#: The supervisor's own account of processes is what the definition stands on, and where runs are placed there may be no
#: state folder beside it.
OWN = {"cluster/services.py", "nodes/stamps.py", "supervisor/probes.py", "supervisor/management/commands/status.py",
       "jobs/workers.py"}  # fmt: skip


class Late(SystemClock):
    """A clock that is behind: what is stamped by it is old."""

    def __init__(self, by_ms: int) -> None:
        self._by_ms = by_ms

    def now_ms(self) -> int:
        return super().now_ms() - self._by_ms


def stamp(prefix: str, age_ms: int = 0) -> None:
    told = {"consumers": [{"topic": PAIR[0], "group": PAIR[1], "state": "running"}]}
    clock = Late(age_ms)
    NodeBeat(store.client(), prefix, name="c1", role="consumer", clock=clock, detail=lambda: told).beat()


def alive(now_ms: int = 0) -> tuple[bool, bool, str]:
    """Whether the node lives, whether somebody serves the subscription, and what the overview's strip says."""
    (node,) = living()[0]
    taken = served()
    assert taken is not None
    marks = cluster_live.cells(now_ms, ("*",)).marks
    (role,) = [each for each in marks["roles"] if each.name == "consumer"]  # type: ignore[attr-defined]
    return not node.silent, PAIR in taken, role.word


@pytest.mark.django_db(databases=["default", "ledger"])
def test_one_who_tells_nothing_for_seconds_is_alive_for_nobody(own_keys: None, prefix: str) -> None:
    stamp(prefix)
    assert alive() == (True, True, "alive")
    stamp(prefix, STILL_AFTER_MS + 100)
    assert alive() == (False, False, "none alive")


@pytest.mark.django_db(databases=["default", "ledger"])
def test_one_who_was_killed_is_alive_for_nobody_at_once(
    own_keys: None, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamp(prefix)

    def dead(folder: Path, nodes: list[Node]) -> list[Node]:
        return [replace(node, silent=True) for node in nodes]

    monkeypatch.setattr(status, "without_the_dead", dead)
    assert alive() == (False, False, "none alive")


@pytest.mark.django_db(databases=["default", "ledger"])
def test_that_somebody_falls_silent_or_is_back_is_a_mark_of_its_own(own_keys: None, prefix: str) -> None:
    def mark() -> object:
        return cluster_live.cells(0, ("*",)).marks["alive"]

    stamp(prefix)
    first = mark()
    stamp(prefix, 1_000)
    assert mark() == first, "a heartbeat alone is none"
    stamp(prefix, STILL_AFTER_MS + 100)
    assert mark() != first


def test_nobody_else_reads_the_stamps() -> None:
    console = ROOT / "hbus_console"
    reading = {
        str(path.relative_to(console))
        for path in console.rglob("*.py")
        if re.search(r"\bread_(nodes|stamps)\(", path.read_text(encoding="utf-8"))
    }
    assert reading - OWN == {"nodes/beat.py"}
