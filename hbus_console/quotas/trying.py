"""What is to be tried of a limit, as an address says it: a policy's or one of one's own, and the traffic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.core.errors import BadInput
from engine.quota import OnLoss, Period, Rule
from engine.quota.trial import Shape, Traffic, Trial, try_out
from hbus_console import checks
from hbus_console.faults import GatheredFaults
from hbus_console.quotas.services.draft import snapshot
from hbus_console.quotas.services.policies import policy as policy_named
from hbus_console.quotas.services.rules import rules_of

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
        return try_out(self.rule, self.traffic, max_wait_s=self.wait_s, nodes=self.nodes, cut=self.cut)


def read_asked(values: Mapping[str, str], at_ms: int) -> AskedTrial:
    """What ``values`` ask for, an override that holds at ``at_ms`` counted. Raises :class:`BadInput` by each field."""
    faults, read = GatheredFaults(), dict[str, Any]()

    def of(name: str, check: Callable[[str], Any]) -> None:
        with faults.gathered():
            read[name] = check(name)

    def decimal(name: str, least: float = 0.0) -> float:
        return checks.number(_figure(values[name], name, float), name, least=least)

    def whole(name: str, least: int, most: int) -> int:
        return checks.whole(_figure(values[name], name, int), name, least=least, most=most)

    of("rate", decimal)
    of("seconds", lambda name: decimal(name, 1))
    of("peak", lambda name: decimal(name) if values[name] else 0.0)
    of("tokens", lambda name: whole(name, 1, 100_000))
    of("wait_s", lambda name: _patience(decimal(name)))
    of("nodes", lambda name: whole(name, 1, 16))
    of("shape", lambda name: Shape(checks.choice(values[name], name, SHAPES)))
    of("rule", lambda _: _rule(values, at_ms))
    of("cut", lambda _: _cut(values))
    faults.tell()
    traffic = Traffic(read["shape"], read["rate"], read["seconds"], read["peak"], read["tokens"])
    return AskedTrial(read["rule"], traffic, read["wait_s"], read["nodes"], read["cut"])


def _patience(seconds: float) -> float:
    if seconds > MOST_WAIT_S:
        raise BadInput(f"Nobody waits for {seconds:g} s.", remedy=f"Write up to {MOST_WAIT_S} seconds.", field="wait_s")
    return seconds


def _rule(values: Mapping[str, str], at_ms: int) -> Rule:
    if values["policy"]:
        row = policy_named(values["policy"])
        return rules_of(row.name, snapshot(row), at_ms)[0]
    limit = checks.number(_figure(values["limit"], "limit", float), "limit", least=0)
    burst = checks.number(_figure(values["burst"] or values["limit"], "burst", float), "burst", least=0)
    percent = checks.whole(
        _figure(values["fallback_percent"], "fallback_percent", int), "fallback_percent", least=0, most=100
    )
    on_loss = OnLoss(checks.choice(values["on_loss"], "on_loss", [each.value for each in OnLoss]))
    return Rule(id="tried", limit=limit, burst=burst, period=Period.NONE, on_loss=on_loss, fallback=percent / 100)


def _cut(values: Mapping[str, str]) -> tuple[float, float] | None:
    if not values["cut_from"]:
        return None
    begins = checks.number(_figure(values["cut_from"], "cut_from", float), "cut_from", least=0)
    ends = checks.number(_figure(values["cut_to"] or values["seconds"], "cut_to", float), "cut_to", least=0)
    if ends <= begins:
        raise BadInput("It ends before it begins.", remedy="Write a later second.", field="cut_to")
    return begins, ends


def _figure(text: str, field: str, kind: Callable[[str], Any]) -> Any:
    try:
        return kind(text.replace(",", "").replace(" ", ""))
    except ValueError as error:
        said = "a whole number" if kind is int else "a number"
        raise BadInput(f"{text[:40]!r} is not {said}.", remedy=f"Write {said}.", field=field) from error
