"""Before a rule is stored: for what it would fire now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from engine.core.clock import Clock, SystemClock
from engine.core.errors import BadInput
from engine.core.subject import Subject
from hbus_console.access.permissions import Actor, covers, require, visible_scopes
from hbus_console.alerts import judge
from hbus_console.alerts.feature import ALERT_EDIT
from hbus_console.alerts.kinds import kinds
from hbus_console.alerts.round import Case, Round
from hbus_console.alerts.services import lookup
from hbus_console.alerts.services.rule_draft import RuleDraft
from hbus_console.alerts.services.rules import checked
from hbus_console.alerts.targets import Target, Targets
from hbus_console.alerts.watching import watched

#: Targets spelled out.
SHOWN = 10


@dataclass(frozen=True)
class PreviewLine:
    """One target and its value, in words too."""

    subject: Subject
    value: float
    said: str
    fires: bool


@dataclass(frozen=True)
class Preview:
    """``lines`` are the highest values, those that would fire first."""

    watched: int
    fires: int
    unknown: int
    paused: int
    lines: Sequence[PreviewLine]
    threshold: str

    @property
    def measured(self) -> int:
        """Of how many it is known whether it would fire."""
        return self.watched - self.unknown - self.paused

    @property
    def more(self) -> int:
        """How many that would fire are not spelled out."""
        return self.fires - sum(line.fires for line in self.lines)


def preview(actor: Actor, draft: RuleDraft, *, of: int | None = None, clock: Clock | None = None) -> Preview:
    """Measure now what ``draft`` would watch, as far as ``actor`` may see it. Stores nothing.

    ``of`` numbers the rule that would become it. Raises ``Forbidden``, :class:`BadInput` naming the field, which is the
    owner where that rule's team is gone and no other is chosen, and :class:`NotThere`.
    """
    rule, _ = checked(asdict(draft))
    require(actor, ALERT_EDIT, rule.scope)
    if of is not None and not draft.owner and lookup.rule(actor, of).orphaned:
        raise BadInput(
            "The rule watches nothing: the team to whose things it was narrowed is gone.",
            remedy="Choose another team.",
            field="owner",
        )
    scopes, kind = visible_scopes(actor), kinds()[rule.kind]
    targets = [
        it
        for it in watched(rule, Targets([kind.targets]))
        if any(covers(scope, it.subject.namespace) for scope in scopes)
    ]
    judged = [it for it in targets if kind.while_paused or not it.paused]
    now = Round((clock or SystemClock()).now_ms(), watching_ms=0)
    values: list[tuple[float, Target]] = []
    for target in judged:
        value = kind.measure(Case(now, target, rule.window_s, firing=True))
        if value is not None:
            values.append((value, target))
    values.sort(key=lambda it: (-it[0], it[1].key))
    lines = [
        PreviewLine(target.subject, value, kind.said(value), judge.met(rule, value)) for value, target in values[:SHOWN]
    ]
    return Preview(
        watched=len(targets),
        fires=sum(judge.met(rule, value) for value, _ in values),
        unknown=len(judged) - len(values),
        paused=len(targets) - len(judged),
        lines=lines,
        threshold=kind.said(rule.threshold),
    )
