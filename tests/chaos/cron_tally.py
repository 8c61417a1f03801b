"""What must never be after the troubles of a cluster, counted in its database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.chaos.cron_cluster import ENDED, OFF_DUTY, Cluster
from tests.chaos.cron_jobs import BEHIND

#: Slots of jobs that were paused.
OFF = "slots off duty"
#: States of rows that say nothing of whether the effect was done: it may have been, before.
_UNKNOWN = ("lost lease", "failed")


def tally(cluster: Cluster, last: int) -> Iterator[str]:
    """What must never be, and is, of the slots up to ``last``: each as a sentence. Counts what was."""
    yield from _unfollowed(cluster, last)
    yield from _wrong_attempts(cluster, last)
    yield from _doubled(cluster)
    found = "SELECT job, slot, state, reason, attempt FROM jobs_jobrun WHERE kind = 'schedule' AND slot <= ?"
    rows = cluster.ask(found, last)
    effects = Counter((job, slot) for job, slot in cluster.ask("SELECT job, slot FROM chaos_effect"))
    by_slot = Counter((job, slot) for job, slot, *_ in rows)
    wanted = {(job.name, slot) for job in cluster.jobs.values() for slot in job.slots(cluster.made_at, last)}
    for slot in by_slot.keys() | wanted:
        if by_slot[slot] != (slot in wanted):
            yield f"{slot[0]} at {slot[1]} has {by_slot[slot]} rows"
    for job, slot, state, reason, attempt in rows:
        done = effects[job, slot]
        # A job that is tried again after a loss says that its work may be done twice.
        if done > int(str(attempt)):
            yield f"the effect of {job} at {slot} was done {done} times in {attempt} attempts"
        if (state == "done") != (done > 0) and state not in _UNKNOWN:
            yield f"{job} at {slot} is {state}, and its effect was done {done} times"
        if state != "done" and not reason:
            yield f"{job} at {slot} is {state}, and nobody says why"
    told = cluster.told
    told.update(OFF if reason == f"paused: {OFF_DUTY}" else f"slots {state}" for _, _, state, reason, _ in rows)
    told["slots"], told["jobs"] = len(rows), len({job for job, *_ in rows})
    told["jobs with an effect"] = len({job for job, _ in effects} - {BEHIND})
    told["slots on duty"] = len(rows) - told[OFF]


def printed(cluster: Cluster) -> str:
    """All that was counted, in a line."""
    counted = ", ".join(f"{count:,} {what}" for what, count in sorted(cluster.told.items()))
    return "\n" + "; ".join(filter(None, (counted, cluster.no_island)))


def _unfollowed(cluster: Cluster, last: int) -> Iterator[str]:
    ended = {str(key) for (key,) in cluster.ask(ENDED, last)}
    followed = Counter(str(key) for (key,) in cluster.ask("SELECT key FROM jobs_jobrun WHERE kind = 'after'"))
    cluster.told["ends followed"] = len(ended)
    for key in ended:
        if followed[key] != 1:
            yield f"the end of {key} was followed {followed[key]} times"
    skipped = "SELECT 'run-' || id FROM jobs_jobrun WHERE job = 'job0' AND state = 'skipped'"
    yield from (f"{key} was skipped and followed" for (key,) in cluster.ask(skipped) if followed[str(key)])


def _wrong_attempts(cluster: Cluster, last: int) -> Iterator[str]:
    """Each run that a worker began has as many attempts as it counts, and the last one ended as it did."""
    attempts = """
        SELECT r.id, r.attempt, r.state, COUNT(a.id), SUM(a.ended_us IS NULL), MAX(a.epoch), r.epoch
        FROM jobs_jobrun r JOIN jobs_jobattempt a ON a.run = r.id
        WHERE r.slot <= ? AND r.ended_us IS NOT NULL GROUP BY r.id
    """
    for run, attempt, state, count, open_ones, newest, epoch in cluster.ask(attempts, last):
        cluster.told["attempts"] += int(str(count))
        if open_ones or newest != epoch or int(str(count)) > int(str(attempt)):
            yield f"run {run} is {state} at attempt {attempt}, and has {count}, {open_ones} of them open"


def _doubled(cluster: Cluster) -> Iterator[str]:
    """Under one epoch there is one effect, whoever thinks that the epoch is theirs."""
    many = "SELECT run, epoch, COUNT(*) FROM chaos_effect GROUP BY run, epoch HAVING COUNT(*) > 1"
    for run, epoch, count in cluster.ask(many):
        yield f"the effect of run {run} was done {count} times under epoch {epoch}"
    ((cluster.told["refused effects"],),) = cluster.ask("SELECT COUNT(*) FROM chaos_refused")  # type: ignore[assignment]
