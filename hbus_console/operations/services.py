"""Starting an operation, and holding, continuing or ending it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

from django.db import IntegrityError, transaction
from django.db.models import F, Q, QuerySet
from django.utils.text import Truncator

from engine.core.clock import Clock, SystemClock, to_datetime
from engine.core.errors import BadInput, Conflict, NotThere
from engine.core.numbers import MOST_DIGITS
from hbus_console.access import context
from hbus_console.access.permissions import (
    GLOBAL,
    SOMEWHERE,
    Actor,
    contains,
    covers,
    require,
    visible_scopes,
)
from hbus_console.access.scopes import scopes_q
from hbus_console.audit.services import record
from hbus_console.checks import reason as checked_reason
from hbus_console.database import one_at_a_time
from hbus_console.operations import guarded
from hbus_console.operations.kinds import NotInstalled, OperationKind, Plan, Taken, installed_kind, kind_named
from hbus_console.operations.models import ACTIVE, Operation, OperationItem
from hbus_console.operations.starters import columns_of, reach
from hbus_console.operations.steering import by_whom
from hbus_console.ui.formats import listed

State = Operation.State
#: The fastest rate that can be asked for, in things a second; so many it may also be before it holds itself.
FASTEST = 100_000

#: How long after an operation its repetition is taken for a second click.
JUST_NOW = timedelta(minutes=5)

#: How often a start is planned anew when others are quicker.
_MOST_PLANS = 8
#: Where the database lets one start pass at a time.
_STARTING = 0x6862_6F70
#: So much of a digest names the work; behind it may stand beside which operation of the same words it was started.
_SAME = 20

_clock = SystemClock()


@dataclass(frozen=True)
class Started:
    """``new`` is false when the same work was under way, or had just left nothing to do: nothing was started."""

    operation: Operation
    new: bool
    #: What other operations have of what was chosen, as far as the one who asked may see them.
    taken: Sequence[Taken] = ()
    #: It takes what was there when it began, and others may have come since.
    as_it_was: bool = False
    #: What they do with it is not what was asked for, or it takes several of them to do all.
    others: bool = False

    @property
    def sentence(self) -> str:
        """What to tell the one who asked."""
        if self.new:
            left = f" {listed(map(str, self.taken))}." if self.taken else ""
            return f"Operation {self.operation.pk} was started.{left}"
        if self.others:
            return f"Nothing was started: {listed(map(str, self.taken))}."
        verb = "does this already" if self.operation.active else "has done this, and nothing is left to do"
        since = " It takes what was there when it was begun; what came since is not in it." if self.as_it_was else ""
        return f"Nothing was started: operation {self.operation.pk} by {self.operation.actor} {verb}.{since}"


def dry_run(actor: Actor, kind_name: str, spec: Mapping[str, Any], *, horizon: int | None = None) -> Plan:
    """What the operation would do. With a ``horizon`` it shows again what it showed then: see :attr:`Plan.horizon`.

    Raises ``BadInput`` or ``Forbidden``.
    """
    kind = installed_kind(kind_name)
    require(actor, kind.action, kind.namespace(spec) or SOMEWHERE)
    return kind.plan(actor, kind.check(actor, spec, _reaching(horizon)))


def start(
    actor: Actor,
    kind_name: str,
    spec: Mapping[str, Any],
    *,
    reason: str,
    rate_per_s: int | None = 0,
    first: int = 0,
    horizon: int | None = None,
    clock: Clock = _clock,
) -> Started:
    """Queue the operation; the keeper runs it. The same work started again while it is under way answers the first, and
    so it does within :data:`JUST_NOW` of its end when it has left nothing to do: the second of two clicks.

    With the ``horizon`` of a dry run it touches nothing that came after that; without one, what is there now.
    ``rate_per_s`` 0 is as fast as it goes, ``None`` the kind's own rate. After ``first`` things it holds itself, so
    that a person can look at what became of them and let the rest follow. Raises ``BadInput`` without a reason, for a
    number out of bounds, or when the plan finds an obstacle or nothing.
    """
    kind = installed_kind(kind_name)
    require(actor, kind.action, kind.namespace(spec) or SOMEWHERE)
    why = checked_reason(reason)
    rate_per_s = kind.rate_per_s if rate_per_s is None else rate_per_s
    if not 0 <= rate_per_s <= FASTEST:
        raise BadInput(
            f"{rate_per_s} is not a rate.", remedy=f"Give 1 to {FASTEST:,} a second, or 0.", field="rate_per_s"
        )
    if not 0 <= first <= FASTEST:
        raise BadInput(
            f"{first} is no number of things to hold after.", remedy=f"Give 1 to {FASTEST:,}, or 0.", field="first"
        )
    wanted = _Wanted(actor, kind, spec, why, rate_per_s, first, horizon)
    for _ in range(_MOST_PLANS):
        try:
            return _start(wanted, clock.now_ms())
        except _StartedBefore:
            # What that one has is not to be done twice.
            continue
    raise Conflict("Many operations are being started at once.", remedy="Try again in a moment.", field="spec")


class _Wanted(NamedTuple):
    """A checked request to start something."""

    actor: Actor
    kind: OperationKind
    spec: Mapping[str, Any]
    why: str
    rate_per_s: int
    first: int
    horizon: int | None


class _StartedBefore(Exception):
    """Another operation was started after this one had been planned."""


def _start(wanted: _Wanted, at_ms: int) -> Started:
    actor, kind, spec, why, rate_per_s, first, horizon = wanted
    newest = Operation.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    asked = kind.check(actor, spec, _reaching(horizon))
    plan = kind.plan(actor, asked)
    if plan.obstacle:
        raise BadInput(plan.obstacle, remedy="Look at the dry run.", field="spec")
    digest = _digest(kind.name, spec, _reach(actor, kind, asked))
    same = Operation.objects.filter(digest__startswith=digest[:_SAME])
    seen = [each for each, visible in shown_of(actor, plan.taken or ()) if visible]
    if plan.total == 0 and seen:
        others = len(plan.taken or ()) > 1 or seen[-1].operation.kind != kind.name
        return Started(seen[-1].operation, new=False, taken=seen, others=others)
    if plan.total == 0:
        before = (
            same.filter(Q(state__in=ACTIVE) | Q(ended_at__gt=to_datetime(at_ms) - JUST_NOW)).order_by("-pk").first()
        )
        if before is not None:
            return Started(before, new=False)
        what = (
            "Unfinished operations that you may not see have all of these." if plan.taken else "There is nothing to do."
        )
        raise BadInput(what, remedy="Choose others.", field="spec")
    if plan.taken is not None and (beside := same.filter(state__in=ACTIVE).order_by("-pk").first()):
        # What that one has is not in this plan: the same words, and other work.
        digest = f"{digest[:_SAME]}.{beside.pk}"
    with transaction.atomic():
        one_at_a_time(_STARTING)
        if Operation.objects.filter(pk__gt=newest).exists():
            raise _StartedBefore
        made = Operation(
            kind=kind.name,
            title=Truncator(kind.title(asked)).chars(300),
            spec=asked,
            guarded=guarded.guarded_of(kind.name, asked),
            digest=digest,
            namespace=kind.namespace(asked),
            scopes=list(visible_scopes(actor, kind.action)),
            **columns_of(actor),
            reason=why,
            rate_per_s=rate_per_s,
            first=first,
            total=plan.total or 0,
            correlation_id=context.current().correlation_id,
            audit_seq=0,
        )
        try:
            # Of two clicks at once the database lets one through: see the model's constraint.
            with transaction.atomic():
                made.save(force_insert=True)
        except IntegrityError:
            before = Operation.objects.get(digest=digest, state__in=ACTIVE)
            return Started(before, new=False, as_it_was=plan.taken is None and plan.horizon is not None)
        entry = record(
            actor,
            "operation.start",
            made.subject,
            reason=why,
            after={
                "kind": kind.name,
                "title": made.title,
                # Its readers are others than the one who asked.
                "spec": _shown_spec(guarded.told_of(kind.name, asked, made.guarded)),
                **({guarded.MARK: guarded.mark_of(made)} if made.guarded else {}),
                "rate_per_s": rate_per_s,
                "total": made.total,
                **({"first": first} if first else {}),
            },
        )
        made.audit_seq = entry.seq
        made.save(update_fields=["audit_seq"])
    return Started(made, new=True, taken=seen)


def pause(actor: Actor, operation_id: int, reason: str) -> Operation:
    """Hold it after the step under way. Raises ``Conflict`` when it is not running."""
    return _move(actor, operation_id, "pause", reason, before=(State.QUEUED, State.RUNNING), after=State.PAUSED)


def resume(actor: Actor, operation_id: int, reason: str) -> Operation:
    """Go on where it was held. Raises ``Conflict`` when it is not paused, or when its kind is not installed."""
    found = operation(actor, operation_id)
    _require(actor, found)
    kind = kind_named(found.kind)
    if isinstance(kind, NotInstalled):
        raise Conflict(kind.missing.what, remedy=kind.missing.remedy, field="kind") from kind.missing
    return _move(actor, operation_id, "resume", reason, before=(State.PAUSED,), after=State.QUEUED)


def cancel(actor: Actor, operation_id: int, reason: str, *, clock: Clock = _clock) -> Operation:
    """End it; what was done stays done. Raises ``Conflict`` when it has ended."""
    moment = to_datetime(clock.now_ms())
    return _move(actor, operation_id, "cancel", reason, before=ACTIVE, after=State.CANCELLED, ended_at=moment)


def operations(actor: Actor) -> QuerySet[Operation]:
    """What ``actor`` may see: what lies in namespaces they may see, and what they started; newest first."""
    scopes = visible_scopes(actor)
    if GLOBAL in scopes:
        return Operation.objects.all()
    return Operation.objects.filter(scopes_q(scopes, "namespace") | Q(actor=actor.name, actor_kind=actor.kind))


def operation(actor: Actor, operation_id: int) -> Operation:
    """One of :func:`operations`; raises ``NotThere``."""
    found = operations(actor).filter(pk=operation_id).first()
    if found is None:
        raise NotThere("There is no such operation.", remedy="List the operations.", field="id")
    return found


def shown_of(actor: Actor, taken: Sequence[Taken]) -> list[tuple[Taken, bool]]:
    """What other operations have, each with whether ``actor`` may see that operation."""
    own = set(operations(actor).filter(pk__in=[each.operation.pk for each in taken]).values_list("pk", flat=True))
    return [(each, each.operation.pk in own) for each in taken]


def specs_for(actor: Actor, found: Sequence[Operation]) -> dict[int, dict[str, Any]]:
    """What each of ``found`` was asked to do, by its number. Of others that it names those that ``actor`` may not see
    are told without their numbers, as in its dry run; what they ask about masked fields is told to who may reveal them.
    """
    named = {each["operation"] for operation in found for each in operation.spec.get("left_to", ())}
    seen = set(operations(actor).filter(pk__in=named).values_list("pk", flat=True)) if named else set()
    return {operation.pk: _shown_spec(guarded.told_to(actor, operation), seen) for operation in found}


def _shown_spec(spec: Mapping[str, Any], seen: Collection[int] = ()) -> dict[str, Any]:
    if "left_to" not in spec:
        return dict(spec)
    left = [each if each["operation"] in seen else {"letters": each["letters"]} for each in spec["left_to"]]
    return {**spec, "left_to": left}


def items(actor: Actor, found: Operation) -> QuerySet[OperationItem]:
    """The results of ``found`` in namespaces that ``actor`` may see; none for who may not know all that it asked for
    (:func:`~.guarded.knows_all`), whom what fitted would tell."""
    if not guarded.knows_all(actor, found):
        return found.items.none()
    scopes = visible_scopes(actor)
    if GLOBAL in scopes:
        return found.items.all()
    # By their names: an index finds these in the midst of any number of others, and not what lies in a scope.
    namespaces = found.items.order_by().values_list("namespace", flat=True).distinct()
    seen = [name for name in namespaces if any(covers(scope, name) for scope in scopes)]
    return found.items.filter(namespace__in=seen)


def may_steer(actor: Actor, found: Operation) -> bool:
    """Whether ``actor`` may pause, resume and cancel it: whoever may do as much in all that it reaches."""
    action = kind_named(found.kind).action
    own = visible_scopes(actor, action)
    return all(any(contains(outer, inner) for outer in own) for inner in reach(found, action))


def _move(
    actor: Actor, operation_id: int, verb: str, reason: str, *, before: Sequence[str], after: State, **more: Any
) -> Operation:
    found = operation(actor, operation_id)
    _require(actor, found)
    why = checked_reason(reason)
    with transaction.atomic():
        # The revision fences a step that is under way: it is rolled back, and what it did with it.
        moved = Operation.objects.filter(pk=found.pk, state__in=before).update(
            state=after, revision=F("revision") + 1, **more
        )
        if not moved:
            found.refresh_from_db()
            what = f"Nothing was done: operation {found.pk} is {found.state}. {by_whom(found)}".strip()
            raise Conflict(what, remedy="Look at it again.", field="state")
        was = found.state
        found.refresh_from_db()
        record(
            actor,
            f"operation.{verb}",
            found.subject,
            reason=why,
            before={"state": was},
            after={"state": found.state, "done": found.done, "skipped": found.skipped, "failed": found.failed},
        )
    return found


def _require(actor: Actor, found: Operation) -> None:
    if not may_steer(actor, found):
        require(actor, kind_named(found.kind).action, found.namespace or GLOBAL)


def _reaching(horizon: int | None) -> int | None:
    if horizon is not None and not 0 <= horizon < 10**MOST_DIGITS:
        raise BadInput(
            f"{horizon} is no dry run's horizon.", remedy="Give the one the dry run answered.", field="horizon"
        )
    return horizon


def _reach(actor: Actor, kind: OperationKind, asked: Mapping[str, Any]) -> list[str]:
    """What the same work must share to be the same: one namespace, everything, or else its very starter.

    Somebody of another scope chooses others by the same words, and may not even see the operation.
    """
    if namespace := kind.namespace(asked):
        return [namespace]
    scopes = visible_scopes(actor, kind.action)
    return [GLOBAL] if GLOBAL in scopes else [actor.kind, actor.name, *sorted(scopes)]


def _digest(kind_name: str, spec: Mapping[str, Any], reach: Sequence[str]) -> str:
    text = json.dumps([kind_name, spec, reach], sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
