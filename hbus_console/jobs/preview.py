"""When an expression fires next, as data and in words: what ``manage.py cron next`` prints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, TypeVar

import msgspec

from engine.core.errors import BadInput
from engine.core.prepared import prepared
from engine.cron.expression import (
    BadExpression,
    FoldPolicy,
    GapPolicy,
    Schedule,
    Slot,
    UnknownZone,
    compile_schedule,
    explain,
)
from engine.cron.expression.offsets import zone

Policy = TypeVar("Policy")

#: Slots that are told at once.
MOST_SLOTS = 1_000
#: As others say it.
_GAPS = {"run": GapPolicy.END, **{policy.value: policy for policy in GapPolicy}}
_FOLDS = {policy.value: policy for policy in FoldPolicy}
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?)?")


class Question(msgspec.Struct, forbid_unknown_fields=True):
    """One line of ``cron next --stdin``. ``after`` is now where it is not said."""

    spec: str
    tz: str = "UTC"
    after: str = ""
    count: int = 5
    gap: str = GapPolicy.END.value
    fold: str = FoldPolicy.FIRST.value
    job: str = ""


@dataclass(frozen=True, slots=True)
class SlotPreview:
    """The answer: a schedule and its slots after an instant."""

    schedule: Schedule
    after: int
    slots: list[Slot]

    def rows(self) -> list[dict[str, str]]:
        """Each slot as JSON: on the wall with its offset, in UTC, and what a change of the clocks made of it."""
        return [{"local": slot.local, "utc": slot.utc, "dst": slot.mark} for slot in self.slots]

    def as_dict(self) -> dict[str, Any]:
        schedule = self.schedule
        return {
            "spec": schedule.spec,
            "zone": schedule.zone,
            "gap": schedule.gap.value,
            "fold": schedule.fold.value,
            "words": explain(schedule),
            "slots": self.rows(),
        }


def preview(question: Question, now_s: int) -> SlotPreview:
    """Raises ``BadInput``, which is a :class:`BadExpression` where the expression itself is at fault."""
    if not 1 <= question.count <= MOST_SLOTS:
        raise BadInput(
            f"{question.count} slots cannot be told.", remedy=f"Ask for 1 to {MOST_SLOTS:,} of them.", field="count"
        )
    schedule = compile_schedule(
        question.spec,
        zone_name=question.tz,
        gap=_named(_GAPS, question.gap, "gap"),
        fold=_named(_FOLDS, question.fold, "fold"),
        job=question.job,
    )
    after = _moment(question.after, schedule.zone) if question.after else now_s
    return SlotPreview(schedule, after, list(islice(schedule.slots(after), question.count)))


def answer(line: bytes, now_s: int) -> dict[str, Any]:
    """The answer to one line of JSON: its slots, or its error with position, reason and remedy."""
    try:
        question = msgspec.json.decode(line, type=prepared(Question))
        return {"slots": preview(question, now_s).rows()}
    except msgspec.DecodeError as error:
        refused: BadInput = BadInput(
            f"The line is not a question: {error}.",
            remedy='Write {"spec": "*/5 * * * *", "tz": "Europe/Lisbon", "after": "2026-03-28T00:00:00Z", "count": 3}.',
        )
    except BadInput as error:
        refused = error
    return {"error": told(refused)}


def told(refused: BadInput) -> dict[str, Any]:
    """An error as JSON; ``position`` is there where the expression itself is at fault."""
    reason = refused.reason if isinstance(refused, BadExpression | UnknownZone) else refused.what
    position = refused.position if isinstance(refused, BadExpression) else None
    return {"position": position, "reason": reason, "remedy": refused.remedy, "field": refused.field}


def _named(policies: Mapping[str, Policy], text: str, field: str) -> Policy:
    if (policy := policies.get(text)) is None:
        raise BadInput(f"{text!r} is no policy.", remedy=f"Write one of {', '.join(policies)}.", field=field)
    return policy


def _moment(text: str, zone_name: str) -> int:
    """Seconds UTC of an instant, or of a wall time of the schedule's zone that says no offset."""
    try:
        if not _MOMENT.fullmatch(text):
            raise ValueError(text)
        moment = datetime.fromisoformat(text)
        return int(moment.timestamp()) if moment.tzinfo else zone(zone_name).instant(moment)
    except (ValueError, OverflowError) as error:
        raise BadInput(
            f"{text!r} is no instant.",
            remedy="Write 2026-03-28T00:00:00Z, or without an offset what the wall of the zone shows.",
            field="after",
        ) from error
