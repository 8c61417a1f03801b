"""Topics: made with an owner, changed with a trace, held, and deleted only when nobody reads them any more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from django.db import transaction

from engine.bus.errors import GroupLost
from engine.bus.partitions import MOST_PARTITIONS
from engine.core.clock import SystemClock, to_datetime
from engine.core.errors import BadInput, Conflict
from hbus_console import checks
from hbus_console.access.permissions import Actor, require
from hbus_console.audit.already import already
from hbus_console.audit.meanwhile import require_current
from hbus_console.audit.services import record
from hbus_console.faults import GatheredFaults
from hbus_console.schemas import services as schemas
from hbus_console.teams import services as teams
from hbus_console.topics import catalog, delayed, lookup, transport_objects
from hbus_console.topics.feature import TOPIC_DELETE, TOPIC_EDIT, TOPIC_GOVERN, TOPIC_PAUSE
from hbus_console.topics.leaving import sent_whole
from hbus_console.topics.models import StoreRemoval, Topic
from hbus_console.topics.payloads import MaskingRules
from hbus_console.topics.services.draft import SETTINGS, TopicDraft, checked, snapshot
from hbus_console.topics.services.topic_rules import carrier_of, fit_name
from hbus_console.ui.formats import counted
from hbus_console.wiring import bus

#: Nothing may have been published for so long before an ordered topic changes its transport: whoever still knew the old
#: rules has published by then.
STILL_MS = catalog.OLD_RULES_MS

_clock = SystemClock()


@transaction.atomic
def create_topic(actor: Actor, draft: TopicDraft, reason: str = "") -> Topic:
    """Make a topic with its owner and, if given, its first schema.

    Raises ``Forbidden``, :class:`BadInput` naming each field, and :class:`Conflict` when the name is taken.
    """
    faults, name = GatheredFaults(), draft.name
    with faults.gathered():
        checks.name(name, "name")
    if not faults:
        # A name that is none is in nobody's namespace.
        require(actor, TOPIC_EDIT, name)
    with faults.gathered():
        _refuse_taken(name)
        fit_name(name, checks.text(draft.transport, "transport", most=32))
    with faults.gathered():
        clean = checked(asdict(draft))
    with faults.gathered():
        owner = teams.owner(draft.owner)
    with faults.gathered():
        reason = checks.reason(reason, required=False)
    faults.tell()
    made = Topic(name=name, team=owner, **clean)
    made.save()
    record(actor, "topic.create", made.subject, reason=reason, after=snapshot(made))
    if draft.schema is not None:
        schemas.first_version(actor, made, draft.schema)
    transport_objects.after_commit(f"create topic {name}", lambda: transport_objects.make_topic(made))
    return made


def _refuse_taken(name: str) -> None:
    if Topic.objects.filter(name=name).exists():
        raise Conflict(f"There is already a topic {name}.", remedy="Choose another name.", field="name")
    if StoreRemoval.objects.filter(topic=name, group="").exists():
        raise Conflict(
            f"A deleted topic {name} is still being removed from the store.",
            remedy="Try again in a minute.",
            field="name",
        )


def change_topic(
    actor: Actor, name: str, changes: Mapping[str, Any], reason: str = "", *, revision: int | None = None
) -> Topic:
    """Change some settings; an empty ``owner`` takes it away, and publishes are refused until somebody takes over.

    Only what differs is changed, and each setting asks for its own permission. What belongs to
    governance needs a reason. Webhooks that are there go on being sent whole what is masked from now on: the audit
    entry names them, and :func:`~hbus_console.topics.leaving.sent_whole` does. ``revision`` guards a form against a
    change made meanwhile (:class:`Outdated`).
    """
    # Before the row is looked for: nobody learns by it which topics there are.
    require(actor, TOPIC_EDIT, name)
    for field in changes.keys() - set(SETTINGS.changeable):
        raise BadInput(f"A topic has no setting {field!r} to change.", remedy="See the API's description.", field=field)
    row = lookup.topic(name)
    for action in SETTINGS.acts_of(SETTINGS.differing(snapshot(row), changes)) or [TOPIC_EDIT]:
        require(actor, action, name)
    if changes.get("transport", row.transport) != row.transport:
        # The store is asked before the transaction, which would make every other writer wait.
        wanted = checks.text(changes["transport"], "transport", most=32)
        fit_name(name, wanted)
        _refuse_while_in_use(row, wanted)
        _refuse_unsettled(row)
    if changes.get("partitions", row.partitions) != row.partitions:
        _refuse_splitting(row, checks.whole(changes["partitions"], "partitions", least=1, most=MOST_PARTITIONS))
    with transaction.atomic():
        return _change(actor, lookup.topic(name, lock=True), changes, reason, revision)


@transaction.atomic
def pause_topic(actor: Actor, name: str, reason: str) -> Topic:
    """Hold the deliveries of all its subscriptions; publishing goes on. Pausing twice leaves one trace."""
    require(actor, TOPIC_PAUSE, name)
    row = lookup.topic(name, lock=True)
    reason = checks.reason(reason)
    if row.paused:
        already(row.subject, "is paused", "topic.pause", reason=reason)
        return row
    return _set_pause(actor, row, True, reason)


@transaction.atomic
def resume_topic(actor: Actor, name: str, reason: str = "") -> Topic:
    """Hand out deliveries again, except to subscriptions that are paused themselves."""
    require(actor, TOPIC_PAUSE, name)
    row = lookup.topic(name, lock=True)
    reason = checks.reason(reason, required=False)
    if not row.paused:
        already(row.subject, "is handed out", "topic.resume", reason=reason)
        return row
    return _set_pause(actor, row, False, reason)


def delete_topic(actor: Actor, name: str, typed_name: str, reason: str) -> int | None:
    """Delete a topic with all its messages. Refused while a subscription reads it.

    ``typed_name`` is what a person typed to confirm. Messages that wait for their due time are cancelled, once the
    transaction has committed. Returns how many waited, which the audit entry says too; ``None``: nobody knows.
    """
    require(actor, TOPIC_DELETE, name)
    lookup.topic(name)
    # The store is asked before the transaction, which would make every other writer wait.
    waiting = delayed.waiting(name)
    _delete(actor, name, typed_name, reason, waiting)
    return waiting


@transaction.atomic
def _delete(actor: Actor, name: str, typed_name: str, reason: str, waiting: int | None) -> None:
    row = lookup.topic(name, lock=True)
    reason = checks.reason(reason)
    checks.typed(typed_name, name)
    if readers := list(row.subscriptions.values_list("group", flat=True)):
        raise Conflict(
            f"{counted(len(readers), 'subscription still reads', 'subscriptions still read')} {name}: "
            f"{', '.join(readers[:5])}.",
            remedy="Delete them first; their owners must know.",
            field="name",
        )
    removals = transport_objects.note_removals(row)
    cancels = {"cancels_delayed": "unknown" if waiting is None else waiting} if waiting != 0 else None
    record(actor, "topic.delete", row.subject, reason=reason, before=snapshot(row), after=cancels)
    row.delete()
    transport_objects.remove_after_commit(removals)


def _change(actor: Actor, row: Topic, changes: Mapping[str, Any], reason: str, revision: int | None) -> Topic:
    before, masked = snapshot(row), MaskingRules.of(row)
    wanted = SETTINGS.differing(before, changes)
    if not wanted:
        return row
    for action in SETTINGS.acts_of(wanted):
        require(actor, action, row.name)
    require_current(revision, row.revision, row.name, row.subject)
    reason = checks.reason(reason, required=TOPIC_GOVERN in SETTINGS.acts_of(wanted))
    clean = checked({**before, **{field: value for field, value in wanted.items() if field != "owner"}})
    for field, value in clean.items():
        setattr(row, field, value)
    if "owner" in wanted:
        row.team = teams.owner(wanted["owner"]) if wanted["owner"] else None
    after = snapshot(row)
    if after == before:
        return row
    if carrier_of(row.transport) != carrier_of(before["transport"]):
        _leave_behind(row, before["transport"])
        row.moved_at = to_datetime(_clock.now_ms())
    row.revision += 1
    row.save()
    if not masked.keep(MaskingRules.of(row)) and (hooks := sent_whole(row)):
        # Who masks more decides whether these stay.
        after["sent_whole_to"] = hooks
    record(actor, "topic.change", row.subject, reason=reason, before=before, after=after)
    transport_objects.after_commit(f"change topic {row.name}", lambda: _bring_in_line(row))
    return row


def _set_pause(actor: Actor, row: Topic, paused: bool, reason: str) -> Topic:
    row.paused, row.pause_reason = paused, reason if paused else ""
    row.revision += 1
    row.save()
    record(
        actor,
        "topic.pause" if paused else "topic.resume",
        row.subject,
        reason=reason,
        before={"paused": not paused},
        after={"paused": paused},
    )
    transport_objects.after_commit(f"{'pause' if paused else 'resume'} {row.name}", _pauses_of(row))
    return row


def _pauses_of(row: Topic) -> Callable[[], None]:
    def act() -> None:
        for subscription in row.subscriptions.select_related("topic"):
            transport_objects.set_pause(subscription)

    return act


def _bring_in_line(row: Topic) -> None:
    transport_objects.make_topic(row)
    for subscription in row.subscriptions.select_related("topic"):
        transport_objects.make_group(subscription)
        transport_objects.set_pause(subscription)


def _refuse_splitting(row: Topic, wanted: int) -> None:
    """A key must never lie in two partitions: whoever reads both at once could handle it out of order."""
    if wanted < row.partitions:
        raise Conflict(
            f"{row.name} has {row.partitions} partitions and cannot have fewer: what lies in one stays there.",
            remedy="Make a new topic, and move its producers and subscriptions over.",
            field="partitions",
        )
    held = bus.admin(row.transport).depth(row.name).messages
    if held:
        raise Conflict(
            f"{row.name} holds {counted(held, 'message')}: with another number of partitions, keys would lie in two of "
            "them and could be handled out of order.",
            remedy="Make a new topic with as many partitions as you want and move over, or stop its producers, let "
            "retention empty it, change it, and start them some seconds later.",
            field="partitions",
        )


def _refuse_while_in_use(row: Topic, wanted: str) -> None:
    """Only what must stand still for it, because its keys have an order, changes its transport without a move."""
    if carrier_of(row.transport) == carrier_of(wanted):
        return
    if row.leaving:
        raise Conflict(
            f"{row.name} is on its way from {row.leaving} already.", remedy="Finish that move.", field="transport"
        )
    if row.ordering == Topic.Ordering.NONE:
        raise Conflict(
            f"What {row.name} holds on {carrier_of(row.transport)} would be left behind there.",
            remedy=f"Move it, in its settings or by manage.py move_topic {row.name} --to {carrier_of(wanted)}.",
            field="transport",
        )
    if StoreRemoval.objects.filter(topic=row.name).exists():
        raise Conflict(
            f"What {row.name} left behind is still being removed.",
            remedy="Try again in a minute.",
            field="transport",
        )
    last_ms = _last_published_ms(row)
    if last_ms is not None and _clock.now_ms() - last_ms < STILL_MS:
        raise Conflict(
            f"{row.name} was published to within the last {STILL_MS // 1000} seconds.",
            remedy="Stop its producers, wait as long, and let it drain.",
            field="transport",
        )


def _last_published_ms(row: Topic) -> int | None:
    """When the newest message that it holds was published; ``None`` where nothing is held or nobody can say."""
    transport = bus.transport(row.transport)
    if not transport.capabilities.browse:
        return None
    newest = transport.admin.browse(row.name, limit=1, newest_first=True).entries
    return newest[0].at_ms if newest else None


def _leave_behind(row: Topic, transport: str) -> None:
    """What the old transport still keeps of it is settled, and would outlive every retention: it is to be removed."""
    transport_objects.note_removal(row.name, carrier_of(transport))
    # A position means something only to the store that gave it.
    row.subscriptions.update(checkpoint="", checkpoint_at=None)


def _refuse_unsettled(row: Topic) -> None:
    """Messages stay where they were stored, so a topic changes its transport only when all of them are settled."""
    admin = bus.admin(row.transport)
    for group in row.subscriptions.values_list("group", flat=True):
        try:
            lag = admin.lag(row.name, group)
        except GroupLost:
            # The default was switched since: nothing has ever been there.
            continue
        if lag.unsettled is None or lag.unsettled or lag.dead:
            raise Conflict(
                f"{group} has not settled everything that {row.transport or 'the present transport'} holds.",
                remedy="Stop publishing, let it drain, then switch.",
                field="transport",
            )
