"""The same series, counted one message after the other."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

from engine.core.resolution import Resolution
from engine.pipeline.audit.summing import SKEW_MS
from engine.pipeline.rollup.series import SeriesCounts
from tests.engine.pipeline.audit.telling import DAY_MS, Told

#: So late is settled what is settled on another day.
LATE_MS = DAY_MS
#: A slot: subscription, resolution, second.
Slot = tuple[str, Resolution, int]


def counted(told: Told) -> dict[Slot, SeriesCounts]:
    counts: dict[Slot, Counter[str]] = defaultdict(Counter)
    took: dict[Slot, list[float]] = defaultdict(list)
    late: dict[Slot, list[float]] = defaultdict(list)

    def slots(subscription: str, at_ms: int) -> list[Slot]:
        return [(subscription, each, at_ms // 1000 // each.seconds * each.seconds) for each in Resolution]

    began: dict[tuple[str, str | None], int] = {}
    for each in told.stored:
        skewed = each.time_ms is not None and abs(each.time_ms - each.stored_ms) > SKEW_MS
        for slot in slots("", each.stored_ms):
            counts[slot] += Counter(stored=1, bytes=len(each.envelope), skewed=int(skewed and not each.body))
            if not skewed and not each.body:
                late[slot].append(max(0, each.stored_ms - (each.time_ms or each.stored_ms)))
        if not each.body:
            began.setdefault((each.id, each.source), each.stored_ms)
    for each in told.published:
        began[each.id, each.source] = min(each.stored_ms, began.get((each.id, each.source), each.stored_ms))
        for slot in slots("", each.stored_ms):
            counts[slot]["published"] += 1
    by_id = {message_id: at_ms for (message_id, _), at_ms in began.items()}
    for one in told.deliveries:
        for name in {"", one.subscription or ""}:
            for slot in slots(name, one.at_ms):
                counts[slot][one.kind] += 1
                start = by_id.get(one.id) if one.source is None else began.get((one.id, one.source))
                if one.kind == "settled" and start is not None:
                    took[slot].append(max(0, one.at_ms - start))
    return {slot: _counts(of_it, took[slot], late[slot]) for slot, of_it in counts.items()}


def _counts(of_it: Counter[str], took: list[float], late: list[float]) -> SeriesCounts:
    return SeriesCounts(
        **of_it,
        timed=len(took),
        p50_ms=_rank(took, 0.5),
        p99_ms=_rank(took, 0.99),
        longest_ms=max(took, default=None),
        late_p50_ms=_rank(late, 0.5),
        late_p99_ms=_rank(late, 0.99),
    )


def _rank(values: list[float], part: float) -> float | None:
    return sorted(values)[max(1, math.ceil(part * len(values))) - 1] if values else None
