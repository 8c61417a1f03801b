"""A filter tried on what the archive has: on some of the newest messages of the span, for there may be millions."""

from __future__ import annotations

from dataclasses import replace
from threading import Lock

from engine.bus import message as envelope
from engine.bus.errors import MalformedEnvelope
from engine.core.clock import Clock, SystemClock, to_rfc3339
from engine.core.errors import Unavailable
from engine.pipeline.lake.errors import LakeDamaged
from engine.pipeline.replay.sampling import SampledRow
from engine.pipeline.replay.span import ReplaySpan
from hbus_console.access.permissions import Actor
from hbus_console.operations.kinds import Plan, Sample
from hbus_console.pipelines.replaying import reach_of, sample_of
from hbus_console.replays.from_archive import NONE_READ
from hbus_console.replays.kind import sample_told, survey
from hbus_console.replays.spec import Chosen, Selection
from hbus_console.topics.models import Topic
from hbus_console.ui.formats import counted, epoch_ms

#: Messages that are looked at, and those that are shown.
MOST, _SHOWN = 2_000, 5
_clock = SystemClock()
#: Each takes a process and a file in memory: one at a time.
_trying = Lock()


def try_filter(actor: Actor, wanted: Selection, *, clock: Clock = _clock) -> Plan:
    """What a replay would find; of the archive, what it tells without being read, and what of a sample is chosen.

    That something masked is asked about is recorded before it is answered. What is older than the topic is not looked
    at: nobody knows what was masked of it. Raises as :func:`~hbus_console.replays.kind.survey`.
    """
    plan = survey(actor, wanted, clock=clock)
    if not wanted.read_from or not wanted.filter or plan.obstacle:
        return plan
    topic = Topic.objects.get(name=wanted.topic)
    made_ms = epoch_ms(topic.created_at)
    if not _trying.acquire(blocking=False):
        return replace(plan, sampled="Somebody is trying a filter on the archive now: it was not tried, try again.")
    try:
        found = sample_of(ReplaySpan(topic.name, max(wanted.from_ms, made_ms), wanted.to_ms, wanted.key), MOST)
    except (LakeDamaged, Unavailable) as error:
        return replace(plan, sampled=f"The filter was not tried: {error}")
    finally:
        _trying.release()
    chosen = Chosen(actor, wanted)
    samples: list[Sample] = []
    matched = unreadable = 0
    for row in found.rows:
        message = _decoded(row)
        if message is None:
            unreadable += 1
        elif chosen(message):
            matched += 1
            if len(samples) < _SHOWN:
                samples.append(sample_told(topic, wanted, row.at_ms, message))
    said = f"Tried on {'the newest ' if found.exact else ''}{counted(len(found.rows), 'message')} of them"
    if found.rows:
        said += f", back to {to_rfc3339(found.rows[-1].at_ms)}: matched {matched:,}"
    if unreadable:
        said += f", {unreadable:,} cannot be read"
    reach = reach_of(topic.name)
    if reach is not None and max(wanted.from_ms, reach.first_ms) < made_ms:
        said += "; what is older than the topic was left aside"
    return replace(plan, samples=samples, scanned=plan.scanned.removesuffix(NONE_READ), sampled=f"{said}.")


def _decoded(row: SampledRow) -> envelope.Message | None:
    try:
        return envelope.decode(row.envelope) if row.envelope is not None else None
    except MalformedEnvelope:
        return None
