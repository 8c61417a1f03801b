"""What came while nobody decided is decided in many small transactions, by all nodes, and none waits in between."""

from __future__ import annotations

import pytest

from engine.cron.slots import scheduling
from engine.cron.slots.job import CatchUp, CronJob, JobPolicy
from engine.cron.slots.node import SHORTEST_S, Changed
from engine.cron.slots.steps import Opened, OpenRuns
from tests.engine.cron.slots.places import Places, Seconds
from tests.engine.cron.slots.test_node import Jobs

JOBS, AWAY_S, MOST = 5, 50, 100


@pytest.mark.parametrize("nodes", [("n1",), ("n1", "n2")], ids=["alone", "beside another"])
@pytest.mark.parametrize("shards", [1, 2, 70])
def test_what_came_in_a_long_outage_is_decided_little_by_little_and_without_a_pause(
    monkeypatch: pytest.MonkeyPatch, shards: int, nodes: tuple[str, ...]
) -> None:
    monkeypatch.setattr(scheduling, "MOST_DECIDED", MOST)
    policy = JobPolicy(grace_s=5, catch_up=CatchUp.ALL, shards=shards)
    jobs = [CronJob(f"job{number}", 1, Seconds(), policy) for number in range(JOBS)]
    places = Places(*jobs)
    written: list[int] = []

    def counting(step: OpenRuns, now: float) -> Opened:
        written.append(sum(len(opening.decisions) for opening in step.openings))
        return places.database.open_runs(step, now)

    places.answers(OpenRuns, counting)
    first, *others = [Jobs(places, *jobs).node(name) for name in nodes]
    places.clock.advance(AWAY_S)
    pauses: list[float] = []
    while len(places.database.runs) < JOBS * AWAY_S * shards:
        pauses.append(first.tick())
        # What one has claimed, and left for its next turn, keeps itself from nothing.
        for other in others:
            other.tick()
    assert set(pauses[:-1]) == {SHORTEST_S}
    assert max(written) <= MOST + shards
    assert [places.slots(job.name) for job in jobs] == [sorted([*range(1, AWAY_S + 1)] * shards)] * JOBS
    assert len(written) < 2 * JOBS * AWAY_S * shards / MOST + JOBS


def test_who_is_in_time_does_not_wait_for_those_that_catch_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling, "MOST_DECIDED", 10)
    behind = [CronJob(f"job{number}", 1, Seconds(), JobPolicy(catch_up=CatchUp.ALL)) for number in range(JOBS)]
    live = CronJob("live", 1, Seconds(), JobPolicy(grace_s=5))
    places = Places(*behind, live)
    jobs = Jobs(places, *behind, live)
    places.clock.advance(1_000)
    jobs.next[-1] = Changed("live", live, places.begin + 999)
    places.database.cursors["live"] = places.database.cursors["live"]._replace(at=places.begin + 999)
    node = jobs.node("n1")
    late = []
    for _ in range(20):
        places.clock.advance(1.0)
        node.tick()
        late.append(places.now_s() - places.database.cursors["live"].at)
    assert max(late) < 2
    assert len(places.database.runs) < JOBS * 1_000
