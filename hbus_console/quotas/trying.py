"""What is to be tried of a limit, as an address says it: a policy's or one of one's own, and the traffic."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from engine.core.errors import BadInput
from engine.quota import OnLoss, Period, Rule
from engine.quota.trial import MOST_NODES, Shape, Traffic, Trial, try_out
from hbus_console import checks
from hbus_console.access.permissions import Actor
from hbus_console.faults import GatheredFaults
from hbus_console.quotas.services.draft import snapshot
from hbus_console.quotas.services.rules import rules_of
from hbus_console.quotas.sight import policy_seen
from hbus_console.ui import forms

#: The longest that a call may wait, in seconds.
MOST_WAIT_S = 60
SHAPES = {
    Shape.STEADY.value: "the rate, evenly",
    Shape.BURST.value: "the rate, and so many at once after a third of the time",
    Shape.RAMP.value: "from the rate up to the peak",
    Shape.WAVES.value: "up and down between rate and peak, three times",
    Shape.FLOOD.value: "the rate, and the peak in the middle third",
}
#: What is asked where the address says nothing, by the names of its fields.
USUAL = {
    "policy": "",
    "limit": "50",
    "burst": "100",
    "shape": Shape.FLOOD.value,
    "rate": "30",
    "peak": "90",
    "seconds": "60",
    "tokens": "1",
    "wait_s": "0",
    "nodes": "4",
    "cut_from": "",
    "cut_to": "",
    "on_loss": OnLoss.FALLBACK.value,
    "fallback_percent": "10",
}


@dataclass(frozen=True)
class AskedTrial:
    """One trial that can be played."""

    rule: Rule
    traffic: Traffic
    wait_s: float
    nodes: int
    cut: tuple[float, float] | None

    def play(self) -> Trial:
        return _played(self)


@lru_cache(maxsize=16)
def _played(asked: AskedTrial) -> Trial:
    """Played once for a page and its chart. To be read only."""
    return try_out(asked.rule, asked.traffic, max_wait_s=asked.wait_s, nodes=asked.nodes, cut=asked.cut)


def read_asked(values: Mapping[str, str], at_ms: int, who: Actor) -> AskedTrial:
    """What ``values`` ask for, an override that holds at ``at_ms`` counted. Raises :class:`BadInput` by each field."""
    faults, read = GatheredFaults(), dict[str, Any]()

    def of(name: str, check: Callable[[], Any]) -> None:
        with faults.gathered():
            read[name] = check()

    of("rate", lambda: _number(values, "rate"))
    of("seconds", lambda: _number(values, "seconds", 1))
    of("peak", lambda: _number(values, "peak") if values["peak"] else 0.0)
    of("tokens", lambda: _whole(values, "tokens", 1, 100_000))
    of("wait_s", lambda: _patience(values))
    of("nodes", lambda: _whole(values, "nodes", 1, MOST_NODES))
    of("shape", lambda: Shape(checks.choice(values["shape"], "shape", SHAPES)))
    of("rule", lambda: _rule(values, at_ms, who))
    of("cut", lambda: _cut(values))
    faults.tell()
    traffic = Traffic(read["shape"], read["rate"], read["seconds"], read["peak"], read["tokens"])
    return AskedTrial(read["rule"], traffic, read["wait_s"], read["nodes"], read["cut"])


def _rule(values: Mapping[str, str], at_ms: int, who: Actor) -> Rule:
    if values["policy"]:
        row = policy_seen(who, values["policy"])
        return rules_of(row.name, snapshot(row), at_ms)[0]
    limit = _number(values, "limit")
    burst = _number(values, "burst") if values["burst"] else limit
    percent = _whole(values, "fallback_percent", 0, 100)
    on_loss = OnLoss(checks.choice(values["on_loss"], "on_loss", [each.value for each in OnLoss]))
    return Rule(id="tried", limit=limit, burst=burst, period=Period.NONE, on_loss=on_loss, fallback=percent / 100)


def _cut(values: Mapping[str, str]) -> tuple[float, float] | None:
    if not values["cut_from"]:
        return None
    begins = _number(values, "cut_from")
    ends = _number(values, "cut_to") if values["cut_to"] else math.inf
    if ends <= begins:
        raise BadInput("It ends before it begins.", remedy="Write a later second.", field="cut_to")
    return begins, ends


def _patience(values: Mapping[str, str]) -> float:
    seconds = _number(values, "wait_s")
    if seconds > MOST_WAIT_S:
        raise BadInput(f"Nobody waits for {seconds:g} s.", remedy=f"Write up to {MOST_WAIT_S} seconds.", field="wait_s")
    return seconds


def _number(values: Mapping[str, str], name: str, least: float = 0.0) -> float:
    return checks.number(forms.number(values, name), name, least=least)


def _whole(values: Mapping[str, str], name: str, least: int, most: int) -> int:
    return checks.whole(forms.whole(values, name), name, least=least, most=most)
