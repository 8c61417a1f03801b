"""Whether anything is awaited: where each message that came of late is at every tier, nobody need wait.

An audit leaves what is younger than telling may take to the next one, for what differs there may yet be told. What does
not differ needs no telling: a topic that is at rest can be judged at once, up to its last message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.pipeline.audit.matching import Matched
from engine.pipeline.audit.ordering import Order


def is_at_rest(matched: Sequence[Matched], ordered: Sequence[Order], done_ms: Mapping[str, int], young_ms: int) -> bool:
    """Whether all that was stored or published from ``young_ms`` on is published, stored, in its place, and has an
    outcome in each subscription. ``done_ms``: from when on each is asked for the outcomes of what was stored."""
    return not any(np.any(at >= young_ms) for at in _awaited(matched, ordered, done_ms))


def _awaited(
    matched: Sequence[Matched], ordered: Sequence[Order], done_ms: Mapping[str, int]
) -> Iterable[NDArray[np.int64]]:
    """When each message was stored, or published, of which something may yet be told."""
    for part in matched:
        yield part.missing.at
        yield part.untold_stored
        yield part.delivered.orphans.at
        for name, of_it in part.delivered.by_subscription.items():
            yield of_it.open_stored[of_it.open_stored >= done_ms[name]]
    for order in ordered:
        yield order.gaps.behind_stored
