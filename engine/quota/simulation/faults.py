"""What goes wrong. Each is done to a world at some moment; most of it is over by itself some time later."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Protocol

from engine.quota.book import Book
from engine.quota.simulation.clocks import PlaneClock
from engine.quota.simulation.plane import ModelPlane
from engine.quota.simulation.process import Machine
from engine.quota.simulation.timeline import Timeline

#: How long what goes wrong lasts, in seconds.
LASTS_S = (0.3, 1.0, 3.0, 6.0)


class Shaken(Protocol):
    """What things go wrong in."""

    rng: random.Random
    hosts: list[Machine]
    plane: ModelPlane
    plane_clock: PlaneClock
    timeline: Timeline
    #: The newest version of the rules, and all there were.
    version: int
    books: dict[int, Book]

    @property
    def now(self) -> float: ...

    def tell(self, what: str) -> None: ...

    def start(self, host: Machine) -> None: ...

    def publish(self, times: float) -> None: ...


def cut(world: Shaken) -> None:
    """Some hosts reach the control plane no more."""
    lasts_s = world.rng.choice(LASTS_S)
    hosts = world.rng.sample(world.hosts, world.rng.randint(1, len(world.hosts)))
    for host in hosts:
        host.network.cut_until = world.now + lasts_s
    world.tell(f"{_names(hosts)} cut off for {lasts_s} s")


def lose_questions(world: Shaken) -> None:
    host, lasts_s = world.rng.choice(world.hosts), world.rng.choice(LASTS_S)
    host.network.questions_lost_until = world.now + lasts_s
    world.tell(f"questions of {host.name} are lost for {lasts_s} s")


def lose_answers(world: Shaken) -> None:
    host, lasts_s = world.rng.choice(world.hosts), world.rng.choice(LASTS_S)
    host.network.answers_lost_until = world.now + lasts_s
    world.tell(f"answers to {host.name} are lost for {lasts_s} s")


def slow(world: Shaken) -> None:
    host, lasts_s = world.rng.choice(world.hosts), world.rng.choice(LASTS_S)
    host.network.slow_until = world.now + lasts_s
    world.tell(f"the network of {host.name} is slow for {lasts_s} s")


def delay(world: Shaken) -> None:
    host, lasts_s = world.rng.choice(world.hosts), world.rng.choice(LASTS_S)
    host.network.late_until = world.now + lasts_s
    world.tell(f"questions of {host.name} come late for {lasts_s} s")


def flush(world: Shaken) -> None:
    world.plane.flush()
    world.tell("the control plane forgets everything")


def fail_over(world: Shaken) -> None:
    """To a control plane that knows rules of some time ago, and nothing else."""
    version = world.rng.randint(1, world.version)
    world.plane.flush()
    world.plane.keep_rules(*world.books[version].kept())
    world.tell(f"another control plane takes over, with version {version} of the rules")


def step_plane(world: Shaken) -> None:
    step_s = world.rng.choice((-600.0, -30.0, -1.5, -0.5, 0.5, 3.0, 30.0))
    world.plane_clock.stepped_s += step_s
    world.tell(f"the control plane's clock steps by {step_s:+} s")


def swing_plane(world: Shaken) -> None:
    """A step, and soon the same one back."""
    step_s = world.rng.choice((-1.5, -0.8, 0.8, 1.5))
    clock = world.plane_clock
    clock.stepped_s += step_s

    def back() -> None:
        clock.stepped_s -= step_s

    world.timeline.add(world.now + world.rng.uniform(0.3, 2.0), back)
    world.tell(f"the control plane's clock steps by {step_s:+} s and back")


def step_node(world: Shaken) -> None:
    host, step_s = world.rng.choice(world.hosts), world.rng.choice((-90.0, -4.0, 4.0, 90.0))
    host.clock.stepped_s += step_s
    world.tell(f"the wall clock of {host.name} steps by {step_s:+} s")


def kill(world: Shaken) -> None:
    host, back_s = world.rng.choice(world.hosts), world.rng.choice((0.05, 0.5, 4.0))
    if host.process is None or host.process.dead:
        return
    host.process.kill()
    world.timeline.add(world.now + back_s, lambda: world.start(host))
    world.tell(f"{host.name} dies, and is back after {back_s} s")


def publish(world: Shaken) -> None:
    times = world.rng.choice((0.5, 1.0, 2.0))
    world.publish(times)
    world.tell(f"version {world.version} of the rules: the limit {times} times")


def publish_old(world: Shaken) -> None:
    """What was published some time ago arrives now."""
    version = world.rng.randint(1, world.version)
    world.plane.keep_rules(*world.books[version].kept())
    world.tell(f"version {version} of the rules arrives once more")


FAULTS: list[Callable[[Shaken], None]] = [
    cut, cut, cut, lose_questions, lose_answers, lose_answers, slow, slow, delay, delay, flush, fail_over, step_plane,
    swing_plane, step_node, kill, publish, publish, publish_old, publish_old,
]  # fmt: skip


def _names(hosts: Iterable[Machine]) -> str:
    return ", ".join(host.name for host in hosts)
