"""Up to when everything of a topic is in the lake: what was stored before is judged, and what was stored since is not.

It is the lowest of these marks. Of messages: the earliest of where its logs were read to, those left out that hold
nothing. Of what the ledger tells, each kind for itself: its latest row, less the time that telling may take. A log or a
ledger in which nothing happens holds the mark back, and so whoever knows that the archive has caught up says so.
"""

from __future__ import annotations

from engine.pipeline.lake.state import Kind, LakeState

#: After it what happened is told: a lost publish is found after two minutes, a lost outcome after four, milliseconds.
TELLING_MS = 300_000


def closed_ms(state: LakeState, topic: str, complete_ms: int = 0) -> int:
    """Epoch milliseconds. ``complete_ms``: what was stored, and booked, before it is in the lake; 0: nobody knows."""
    held = state.held(topic)
    of_logs = min((reached.at_ms for reached in held.reached.values() if reached.at), default=0)
    marks = [max(of_logs, complete_ms)]
    for kind in (Kind.PUBLISHED, Kind.DELIVERIES):
        files = state.files_of(topic, kind=kind)
        if files:
            marks.append(max(complete_ms, *(file.last_ms for file in files)) - TELLING_MS)
        elif kind is Kind.PUBLISHED and kind in held.booked:
            marks.append(complete_ms - TELLING_MS)
    return max(0, min(marks))


def is_told(state: LakeState, topic: str) -> bool:
    """Whether what the ledger tells of it is in the lake at all."""
    return Kind.PUBLISHED in state.held(topic).booked or bool(state.files_of(topic, kind=Kind.PUBLISHED))
