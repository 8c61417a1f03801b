"""Nodes that own a shard one after the other, and what befalls them: a random history out of one seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from engine.core.errors import OutcomeUnknown, Unavailable
from engine.delay.errors import ShardLost, StaleEpoch
from engine.delay.leavings import ORPHAN_MS
from engine.delay.ledgers.memory import ModelEngine
from engine.delay.levels import DAY_MS, HOUR_MS, MINUTE_MS, WEEK_MS, most_live
from engine.delay.near import TakenMessage
from engine.delay.outcomes import CancelStatus, ShardSettings
from engine.delay.records import PendingMessage
from engine.delay.shard import DelayShard
from engine.delay.shard_clock import ShardClock
from engine.delay.simulation.faults import FaultyEngine, NodeKilled
from engine.delay.simulation.judging import AskedMessage, DelayJudge

SHARD = "shard"
#: A boundary of weeks; histories begin before it, after it, or anywhere.
BEGIN = 2_961 * WEEK_MS
#: Acts of clients and owners in which things go wrong.
ACTS = 40
#: How far away messages are due.
_DISTANCES = (
    *(-5_000, 500, 20_000, 90_000, 10 * MINUTE_MS, 2 * HOUR_MS, 5 * HOUR_MS),
    *(2 * DAY_MS, 5 * DAY_MS, 16 * DAY_MS, 22 * DAY_MS),
)
#: How long nothing happens between two acts.
_PAUSES = (0, 0, 7, 300, 2_000, 20_000, 70_000, 15 * MINUTE_MS, HOUR_MS, 9 * HOUR_MS, 3 * DAY_MS)
#: Ticks within which all that has come must be handed over when nothing goes wrong.
MOST_TICKS = 400


@dataclass(slots=True, eq=False)
class DelayNode:
    """A process on a machine with a clock of its own."""

    name: str
    #: What its wall clock is ahead of true time when nobody has touched it.
    skew_ms: int
    clock: ShardClock
    #: What somebody has put its clock forward by.
    step_ms: int = 0
    shard: DelayShard | None = None
    #: It stands still in the middle of something.
    held_up: bool = False


class DelayWorld:
    """One history. Single-threaded; everything random comes from its seed."""

    def __init__(self, seed: int, *, calm: bool = False) -> None:
        self.rng = rng = random.Random(seed)  # noqa: S311 - it is to be replayed
        self.now = BEGIN + rng.choice((-3 * HOUR_MS, -90_000, -5_000, 0, rng.randrange(WEEK_MS)))
        self.judge = DelayJudge()
        self.model = ModelEngine()
        self.told: list[str] = []
        self.epoch = 0
        self.settings = ShardSettings(
            tick_ms=rng.choice((1, 10, 100)),
            chunk_bytes=rng.choice((300, 1_000, 1 << 20)),
            roll_bytes=rng.choice((200, 1 << 20)),
            load_bytes=rng.choice((100, 1 << 20)),
            in_flight=rng.choice((2, 1_000)),
            steps=rng.choice((1, 5, 100)),
        )
        self.nodes = [self._node(f"node{number}") for number in range(3)]
        self.owner: DelayNode | None = None
        #: How likely something befalls a node between two steps.
        self._trouble = 0.0 if calm else rng.choice((0.002, 0.01, 0.03))
        self._depth = 0
        self._named = 0
        #: The latest due time of any message at any time.
        self._latest = 0
        self._flying: dict[int, set[str]] = {}

    def _node(self, name: str) -> DelayNode:
        skew = self.rng.randint(-400, 400)
        return DelayNode(name, skew, ShardClock(self.now + skew, self.now / 1_000))

    def play(self) -> None:
        """Live through it."""
        for _ in range(ACTS):
            self.now += self.rng.choice(_PAUSES) * self.rng.randint(1, 3)
            if self.rng.random() < 0.2:
                self._approach_some()
            self._act()
        self._come_to_rest()

    def _approach_some(self) -> None:
        """The moments at which a message is just due, or just not yet."""
        near = [asked for asked in self.judge.asked.values() if self.now < min(asked.dues) < self.now + 10 * MINUTE_MS]
        if near and self.owner is not None:
            due = min(self.rng.choice(near).dues) - self.owner.skew_ms
            self.now = max(self.now, due + self.rng.randint(-120, 20))

    def tell(self, what: str) -> None:
        self.told.append(f"{(self.now - BEGIN) / 1_000:+14.3f}  {what}")

    # What befalls a node ----------------------------------------------------------------------------------------------

    def _moment(self, node: DelayNode, after: bool) -> None:
        if self.rng.random() >= self._trouble:
            return
        what = self.rng.choice(("kill", "kill", "away", "away", "held up", "held up", "fence"))
        self.tell(f"{node.name}: {what} {'after' if after else 'before'} a call")
        if what == "kill":
            raise NodeKilled
        if what == "away":
            raise OutcomeUnknown("the answer was lost") if after else Unavailable("the store is away")
        if what == "fence":
            self._fence_some()
        elif self._depth == 0:
            self._meanwhile(node)

    def _fence_some(self) -> None:
        """The store repairs itself: it fences ledgers that are written, and none knows why."""
        model = self.model.open(SHARD)
        opened = [info.id for info in model.ledgers() if not info.closed]
        if opened:
            model.recover(self.rng.sample(opened, self.rng.randint(1, len(opened))))

    def _meanwhile(self, node: DelayNode) -> None:
        """The node stands still; others go on, and it does not know."""
        self._depth += 1
        node.held_up = True
        if self.rng.random() < 0.8:
            self._take_over()
        for _ in range(self.rng.randint(1, 6)):
            self.now += self.rng.choice(_PAUSES[:8])
            self._act()
        node.held_up = False
        self._depth -= 1

    def _run(self, node: DelayNode, act: Callable[[DelayShard], None]) -> None:
        """Have a node do something with its shard, if it lives and is sure of the time."""
        shard = node.shard
        if shard is None:
            return
        try:
            act(shard)
        except NodeKilled:
            node.shard = None
        except (ShardLost, StaleEpoch):
            self.tell(f"{node.name} has lost the shard")
            node.shard = None
        except Unavailable:
            self.tell(f"{node.name}: the store did not answer")

    def _time(self, node: DelayNode, *, confirmed: bool = False) -> int | None:
        """What a node takes for now; ``None`` while it must not go on. It is confirmed from time to time, and before
        anything is built on it.
        """
        wall = self.now + node.skew_ms + node.step_ms
        reading = node.clock.read(wall, self.now / 1_000)
        if reading.stopped or confirmed or self.rng.random() < 0.2:
            node.clock.confirm(wall, self.now)
            reading = node.clock.read(wall, self.now / 1_000)
        return None if reading.stopped else reading.now_ms

    # What there is to be done -----------------------------------------------------------------------------------------

    def _act(self) -> None:
        if self.owner is None or self.owner.shard is None or self.rng.random() < 0.04:
            self._take_over()
        node = self.owner
        if self.rng.random() < 0.15:
            # Whoever thinks that the shard is still his.
            node = self.rng.choice([each for each in self.nodes if each.shard is not None] or [None])
        if node is None or node.shard is None or node.held_up:
            return
        act = self.rng.choice(_ACTS)
        self._run(node, lambda shard: act(self, node, shard))

    def _take_over(self) -> None:
        node = self.rng.choice([node for node in self.nodes if not node.held_up])
        if self._time(node, confirmed=True) is None:
            return
        self.epoch += 1
        epoch = self.epoch
        self.judge.bus.fence(epoch)
        now_ms = self._time(node)
        assert now_ms is not None
        self.tell(f"{node.name} opens the shard under epoch {epoch}")
        engine = FaultyEngine(self.model, lambda after: self._moment(node, after), self.judge.say)
        try:
            shard = DelayShard.open(engine, SHARD, epoch, now_ms, self.settings)
        except (NodeKilled, Unavailable, StaleEpoch, ShardLost):
            return
        if epoch < self.epoch:
            # Another came while it was held up: it finds out by itself.
            return
        node.shard, self.owner = shard, node

    def step_clock(self, node: DelayNode, shard: DelayShard) -> None:
        node.step_ms = self.rng.choice((0, 0, 3_000, HOUR_MS, -3_000, -HOUR_MS))
        self.tell(f"the clock of {node.name} is put {node.step_ms / 1_000:+.0f} s")

    def close(self, node: DelayNode, shard: DelayShard) -> None:
        node.shard = None
        shard.close()
        self.tell(f"{node.name} has given up the shard")

    def add(self, node: DelayNode, shard: DelayShard) -> None:
        now_ms = self._time(node)
        if now_ms is None:
            return
        batch: list[AskedMessage] = []
        for _ in range(self.rng.randint(1, 4)):
            self._named += 1
            due = self._due(now_ms)
            batch.append(AskedMessage(f"m{self._named}", {due}))
        self.judge.asked.update((each.id, each) for each in batch)
        body = b"x" * self.rng.choice((1, 50))
        messages = [PendingMessage(min(each.dues), each.id, "topic", body, f"key-{each.id}") for each in batch]
        for asked, outcome in zip(batch, shard.add(messages, now_ms), strict=True):
            asked.status, asked.handle = outcome.status, outcome.handle

    def _due(self, now_ms: int) -> int:
        due = now_ms + self.rng.choice(_DISTANCES) + self.rng.randrange(2_000)
        self._latest = max(self._latest, due)
        return due

    def cancel(self, node: DelayNode, shard: DelayShard) -> None:
        now_ms = self._time(node)
        some = self._some()
        if now_ms is None or not some:
            return
        for asked in some:
            asked.in_doubt = True
        statuses = shard.cancel([asked.handle for asked in some if asked.handle], now_ms)
        for asked, status in zip(some, statuses, strict=True):
            asked.in_doubt = False
            self.judge.cancelled(asked, status)

    def reschedule(self, node: DelayNode, shard: DelayShard) -> None:
        now_ms = self._time(node)
        some = self._some()
        if now_ms is None or not some or some[0].handle is None:
            return
        asked, handle = some[0], some[0].handle
        due = self._due(now_ms)
        before = set(asked.dues)
        asked.dues.add(due)
        asked.in_doubt = True
        outcome = shard.reschedule(handle, due, now_ms)
        if outcome.status is CancelStatus.IN_DOUBT:
            return
        asked.in_doubt = False
        if outcome.status is CancelStatus.CANCELLED:
            self.judge.rescheduled(asked, due)
            asked.handle = outcome.handle
        else:
            asked.dues = before
            self.judge.cancelled(asked, outcome.status)

    def _some(self) -> list[AskedMessage]:
        found = [asked for asked in self.judge.asked.values() if asked.may_be_touched]
        return self.rng.sample(found, min(len(found), self.rng.randint(1, 2)))

    def tick(self, node: DelayNode, shard: DelayShard) -> None:
        """A tick, the publish, and the note that it was: each may be the last that happens."""
        now_ms = self._time(node)
        if now_ms is None:
            return
        flying = self._flying.setdefault(shard.epoch, set())
        handed = shard.tick(now_ms, self.rng.choice((1, 3, 100)))
        taken = handed.messages
        if shard.epoch == self.epoch:
            self.judge.take(taken, flying)
            buckets = len(self.model.open(SHARD).metadata().buckets)
            if buckets > most_live(self.settings.horizon_ms):
                self.judge.say(f"there are {buckets} buckets")
        flying |= {each.record.message().message_id for each in taken}
        self._moment(node, False)
        if self.rng.random() < 0.1 and self._trouble:
            shard.give_back(taken)
            flying -= {each.record.message().message_id for each in taken}
            return
        if shard.epoch < self.judge.bus.epoch:
            self.tell(f"the bus refuses {node.name}")
            return
        self.judge.publish(shard.epoch, taken, self.now + node.skew_ms)
        self._moment(node, True)
        shard.dispatched(taken)
        self._note(shard, taken)

    def _note(self, shard: DelayShard, taken: list[TakenMessage]) -> None:
        missing = {each.record.sequence for each in shard.unnoted()}
        noted = (each.record for each in taken if each.record.sequence not in missing)
        self.judge.bus.noted |= {record.message().message_id for record in noted}

    # The end ----------------------------------------------------------------------------------------------------------

    def _come_to_rest(self) -> None:
        """Nothing goes wrong any more; all that is to come comes, and nothing is left behind."""
        self._trouble = 0.0
        self.settings = replace(self.settings, steps=100, in_flight=1_000)
        for node in self.nodes:
            # Put right, and restarted.
            node.step_ms = 0
            node.clock = ShardClock(self.now + node.skew_ms, self.now / 1_000)
        self._take_over()
        end = max(self._latest, self.now) + 2 * MINUTE_MS
        ticks = 0
        while ticks < MOST_TICKS:
            ticks += 1
            busy = self._quiet_tick()
            if not busy:
                if self.now > end:
                    break
                self.now += self.rng.choice((MINUTE_MS, HOUR_MS, 9 * HOUR_MS, DAY_MS)) + 1_000
        self.now += ORPHAN_MS + 1_000
        while self._quiet_tick():
            pass
        self._look_for_leavings()

    def _quiet_tick(self) -> bool:
        assert self.owner is not None
        assert self.owner.shard is not None
        node, shard = self.owner, self.owner.shard
        now_ms = self._time(node)
        assert now_ms is not None
        handed = shard.tick(now_ms, 1_000)
        self.judge.take(handed.messages, ())
        self.judge.publish(shard.epoch, handed.messages, self.now + node.skew_ms)
        shard.dispatched(handed.messages)
        self._note(shard, handed.messages)
        return handed.busy or bool(handed.messages)

    def _look_for_leavings(self) -> None:
        model = self.model.open(SHARD)
        if model.metadata().buckets:
            self.judge.say(f"left behind: {', '.join(map(str, model.metadata().buckets))}")
        if left := [info.id for info in model.ledgers()]:
            self.judge.say(f"left behind: ledgers {left}")


_ACTS: list[Callable[[DelayWorld, DelayNode, DelayShard], None]] = [
    *[DelayWorld.add] * 5,
    *[DelayWorld.tick] * 8,
    *[DelayWorld.cancel] * 2,
    *[DelayWorld.reschedule] * 2,
    DelayWorld.step_clock,
    DelayWorld.close,
]


def play(seed: int) -> tuple[DelayWorld, list[str]]:
    """Live through the history of ``seed``; what its judge has to say of it, which should be nothing."""
    lived = DelayWorld(seed)
    lived.play()
    return lived, list(lived.judge.at_the_end())
