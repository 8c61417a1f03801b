"""The jobs of the chaos tests of the slot protocol, as rows: no service of the console makes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.db import connection

from hbus_console.jobs.models import Job
from tests.chaos.cron_process import LEASE_S, SLOW

#: A job that runs after any end of job0, how, and the keys of the runs that follow those ends.
BEHIND = "behind"
ENDS = {"after": "job0 any", "after_loss": "end", "after_failure": "end"}


@dataclass(frozen=True, slots=True)
class ChaosJob:
    """A job whose slots are ``phase`` and every ``period`` seconds after it in each minute; 0: it has none."""

    name: str
    period: int = 1
    phase: int = 0
    policy: dict[str, object] = field(default_factory=dict)

    def slots(self, after: int, last: int) -> range:
        """Those that are to have a row, of the instants behind ``after`` up to ``last``."""
        first = after + 1
        return range(first + (self.phase - first) % self.period, last + 1, self.period) if self.period else range(0)

    def row(self) -> dict[str, Any]:
        """Column → value of its row; of team 1."""
        schedule = f"{self.phase}/{self.period} * * * * *" if self.period else "@never"
        made = Job(
            name=self.name,
            team_id=1,
            kind="http",
            target="https://1.1.1.1/",
            schedule=schedule,
            zone="UTC",
            grace_s=5,
            catch_up_window_s=3_600,
            catch_up_most=10_000,
            backoff_s=1,
            backoff_most_s=5,
            lease_s=LEASE_S,
            version=1,
            **self.policy,
        )
        columns = [each for each in Job._meta.concrete_fields if not each.primary_key]
        return {
            each.column: each.get_db_prep_save(each.pre_save(made, add=True), connection=connection) for each in columns
        }


def quick_jobs(number: int, *, attempts: int = 1, period: int = 1) -> Iterator[ChaosJob]:
    """Jobs of many policies, whose slots are spread over the period; the work of each run takes no time."""
    tried = "retry" if attempts > 1 else "end"
    for each in range(number):
        # Every other one would rather skip a slot, wait, or stop the run before than run two at once.
        overlap = ("run", "skip", "run", "queue", "run", "cancel")[each % 6]
        policy = {"overlap": overlap, "catch_up": ("all", "last")[each // 2 % 2], "attempts": attempts}
        again = {"after_loss": tried, "after_failure": tried}
        yield ChaosJob(f"job{each}", period, each % period, {**policy, **again})


def follower() -> ChaosJob:
    """One that runs after any end of the first."""
    return ChaosJob(BEHIND, 0, 0, {"overlap": "run", "catch_up": "last", "attempts": 1, **ENDS})


def slow_jobs(number: int) -> Iterator[ChaosJob]:
    """Jobs whose work outlasts its lease and heeds no loss of it; another does it anew after one."""
    tried = {"attempts": 10, "after_loss": "retry", "after_failure": "retry"}
    for each in range(number):
        yield ChaosJob(f"{SLOW}{each}", 10, each % 10, {"overlap": "run", "catch_up": "all", **tried})
