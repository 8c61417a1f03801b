"""How the jobs of a history treat what does not go as planned."""

from __future__ import annotations

import random
from typing import Any

from engine.cron.slots.job import AfterFailure, AfterLoss, CatchUp, JobPolicy, Overlap

_DIVISIONS: list[dict[str, Any]] = [{}, {}, {}, {"shards": 2}, {"on_nodes": True}]


def random_policy(rng: random.Random) -> JobPolicy:
    """Of any kind, with times that fit into a short history."""
    after_loss = rng.choice((AfterLoss.END, AfterLoss.END, AfterLoss.RETRY))
    after_failure = rng.choice((AfterFailure.END, AfterFailure.END, AfterFailure.RETRY))
    tries_again = AfterLoss.RETRY is after_loss or AfterFailure.RETRY is after_failure
    return JobPolicy(
        grace_s=rng.choice((5.0, 20.0)),
        catch_up=rng.choice(list(CatchUp)),
        catch_up_window_s=rng.choice((30.0, 90.0)),
        catch_up_most=rng.choice((2, 50)),
        overlap=rng.choice((Overlap.RUN, *Overlap)),
        most_at_once=rng.choice((0, 0, 1, 2)),
        lease_s=rng.choice((4.0, 10.0)),
        after_loss=after_loss,
        after_failure=after_failure,
        attempts=rng.choice((2, 3)) if tries_again else 1,
        backoff_s=rng.choice((0.0, 0.5, 4.0)),
        backoff_most_s=rng.choice((2.0, 30.0)),
        jitter_s=rng.choice((0, 0, 3, 12)),
        binds_manual=rng.random() < 0.5,
        tags=rng.choice(((), ("disk",))),
        **rng.choice(_DIVISIONS),
    )
