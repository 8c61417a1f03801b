"""A worker in memory, with runs to do."""

from __future__ import annotations

from engine.cron.slots.driving import perform
from engine.cron.slots.job import CronJob, JobPolicy
from engine.cron.slots.keeping import LeaseKeeper
from engine.cron.slots.planning import Decision
from engine.cron.slots.running import Held, begin
from engine.cron.slots.steps import LeasesHeld, RunRow, RunState
from engine.cron.slots.worker import RunWorker
from tests.engine.cron.slots.places import Places, Seconds

POLICY = JobPolicy(lease_s=10)


class Hall:
    """One run waits for the worker; more of them with :meth:`claim`."""

    def __init__(self, policy: JobPolicy = POLICY) -> None:
        self.policy = policy
        self.places = Places(CronJob("close", 1, Seconds(), policy))
        self.keeper = LeaseKeeper(self.places.act, self.places.clock)
        self.worker = RunWorker("w1", self.places.act, self.keeper, lambda job: policy, self.places.clock)
        self.run = self.claim()

    def claim(self) -> int:
        """A further run, of the next slot."""
        database = self.places.database
        made = database.insert("close", Decision(self.places.begin - 100 + len(database.runs)), self.places.now_s())
        assert made is not None
        return made.id

    def held(self, run: int | None = None) -> Held:
        """A run that the worker has begun."""
        begun = begin(self.run if run is None else run, "w1#1", lambda job: self.policy)
        found = perform(begun, self.places.act, self.places.clock)
        assert isinstance(found, Held)
        return found

    def pass_time(self, seconds: float) -> None:
        for tenth in range(round(seconds * 10)):
            self.places.clock.advance(0.1)
            self.keeper.tick()
            if tenth % 10 == 9:
                self.keeper.ask()

    @property
    def row(self) -> tuple[RunState, str]:
        return self.told(self.run)

    def told(self, run: int) -> tuple[RunState, str]:
        """What it is, and its reason."""
        return self.whole(run).state, self.places.database.reasons[run]

    def whole(self, run: int) -> RunRow:
        return self.places.database.runs[run]

    def is_held(self) -> bool:
        return self.run in self.places.act(LeasesHeld((self.run,)))
