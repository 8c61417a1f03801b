"""The operation that moves a live topic to another transport, and can be resumed at any point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.http import QueryDict
from django.urls import reverse

from engine.bus.subjects import subscription_subject
from engine.core.clock import SystemClock
from engine.core.errors import BadInput
from engine.core.pacing import Pacing
from hbus_console.access.permissions import Actor
from hbus_console.operations.kinds import Do, Item, Plan, Result, Step, Task
from hbus_console.topics import catalog
from hbus_console.topics.feature import TOPIC_GOVERN
from hbus_console.topics.models import Topic
from hbus_console.topics.services import moving
from hbus_console.topics.services.topic_rules import carrier_of
from hbus_console.ui.formats import counted
from hbus_console.wiring import bus

#: The old transport has to be empty for so long.
QUIET_MS = 10_000
#: And so long after the topic went from it: whoever cannot reach the database publishes by the old rules until then.
OLD_RULES_MS = catalog.OLD_RULES_MS

_clock = SystemClock()


class Move:
    """Its spec is ``{"topic": name, "to": transport}``; ``"without": ["priorities"]`` gives up what is not known there.

    On the way a topic may turn back: a move to the transport that it leaves. The move it was on ends with that.
    """

    name = "move"
    verb = "Move"
    action = TOPIC_GOVERN
    effect = (
        "Publishing goes to the other transport; the old one is read beside it until it is empty, and then given up. "
        "Until then it can turn back at once, by the same act; afterwards what the old one kept for replay is gone."
    )
    did = "moved"
    died = "died"
    #: It waits for the old transport, and has nothing to be slow about.
    rate_per_s = 0
    works_on = "subscription"
    destructive = False
    facets = ()

    def from_query(self, query: QueryDict) -> dict[str, Any]:
        # In an address ``to`` is the end of the pages' time range.
        spec = {"topic": str(query.get("topic", "")), "to": str(query.get("carrier", ""))}
        without = query.getlist("without")
        return {**spec, "without": without} if without else spec

    def choice_url(self, spec: Mapping[str, Any]) -> str:
        topic = str(spec.get("topic") or "")
        return reverse("topics:settings", args=[topic]) if topic else reverse("topics:list")

    def check(self, actor: Actor, spec: Mapping[str, Any], horizon: int | None = None) -> dict[str, Any]:
        for field in ("topic", "to"):
            if not isinstance(spec.get(field), str) or not spec[field]:
                raise BadInput(f"{field} is missing.", remedy="Name the topic and where to.", field=f"spec.{field}")
        if spec["to"] not in bus.carriers():
            raise BadInput(
                f"There is no transport {spec['to']!r}.",
                remedy=f"Choose one of {', '.join(bus.carriers())}.",
                field="spec.to",
            )
        without = spec.get("without", [])
        if not isinstance(without, list) or any(each not in moving.DISPENSABLE for each in without):
            raise BadInput(
                "without names something that no topic can give up.",
                remedy=f"It is a list of {', '.join(moving.DISPENSABLE)}.",
                field="spec.without",
            )
        moving.check_move(actor, spec["topic"], spec["to"], without)
        asked = {"topic": spec["topic"], "to": spec["to"]}
        return {**asked, "without": sorted(set(without))} if without else asked

    def namespace(self, spec: Mapping[str, Any]) -> str:
        return str(spec.get("topic") or "")

    def title(self, spec: Mapping[str, Any]) -> str:
        return f"Move {spec['topic']} to {spec['to']}"

    def plan(self, actor: Actor, spec: Mapping[str, Any]) -> Plan:
        to = spec["to"]
        row = moving.check_move(actor, spec["topic"], to, _without(spec))
        old = carrier_of(row.transport)
        if old == to:
            old = row.leaving
        groups = _groups(row)
        lags = [moving.lag_there(old, row.name, group) for group in groups]
        unknown = sum(lag.waiting is None for lag in lags)
        warnings = [
            f"Publishing goes to {to} at once; {old} is read beside it until it is empty and quiet.",
            f"Then what {old} holds of it is removed, also what was kept for replay. The ledger keeps its evidence.",
            "Handlers may see messages of both in any order, and some twice: inboxes stop those.",
        ]
        if moving.lacks_priorities(row, to):
            warnings.append(f"Priorities of {row.name} are switched off, and stay so until somebody switches them on.")
        warnings += moving.told_of_lacks(row, to)
        for reader, behind in moving.unread_there(old, row.name):
            warnings.append(f"The move waits for {reader.words} as well: on {old} {behind}. {reader.advice}")
        known = sum((lag.waiting or 0) + lag.in_flight + lag.retrying + lag.parked for lag in lags)
        unsettled = counted(known, "unsettled delivery", "unsettled deliveries")
        least = "at least " if unknown else ""
        scanned = f"{old} has {least}{unsettled} of {counted(len(groups), 'subscription')}"
        if unknown:
            scanned += f"; of {unknown:,} it cannot tell how many"
        return Plan(None, warnings=warnings, scanned=scanned)

    def pacing(self, actor: str, spec: Mapping[str, Any]) -> Pacing | None:
        return None

    def ahead(
        self, spec: Mapping[str, Any], cursor: Mapping[str, Any], scopes: Sequence[str]
    ) -> Mapping[str, int] | None:
        return None

    def let_go(self, operation_id: int) -> None:
        return None

    def look(self, task: Task, limit: int) -> Do:
        name, to, cursor = task.spec["topic"], task.spec["to"], dict(task.cursor)
        if cursor:
            known = Topic.objects.filter(name=name).first()
            if known is None:
                raise BadInput(f"There is no topic {name!r} any more.")
            return self._drain(task, known, cursor)
        row = moving.check_move(task.actor, name, to, _without(task.spec))
        if carrier_of(row.transport) != to:
            if moving.is_being_removed(name):
                note = f"waiting until what {name} once left behind is removed"
                return lambda: Step((), {}, finished=False, note=note)
            moving.prepare(row, to)
        return lambda: self._cut_over(task, row)

    def _cut_over(self, task: Task, row: Topic) -> Step:
        name, to = task.spec["topic"], task.spec["to"]
        if carrier_of(row.transport) != to:
            row = moving.cut_over(task.actor, name, to, _without(task.spec), task.reason)
        note = f"publishing goes to {to}; {row.leaving} is being emptied"
        return Step((), {"from": row.leaving, "quiet_since": 0}, finished=False, note=note)

    def _drain(self, task: Task, row: Topic, cursor: dict[str, Any]) -> Do:
        old, now = cursor["from"], _clock.now_ms()
        if row.leaving != old:
            step = Step((), cursor, finished=True, note=f"{row.name} has turned back to {old} on the way")
            return lambda: step
        admin = bus.admin(old)
        # A move that this one turned back from may have closed it just when it was opened.
        bus.admin(task.spec["to"]).create_topic(row.name)
        gone_ms = now - round(row.moved_at.timestamp() * 1000) if row.moved_at else OLD_RULES_MS
        if gone_ms >= OLD_RULES_MS:
            # Before it is looked at: what came until then is seen, and nothing comes after that.
            moving.close_old(row.name, old)
        lags = {group: moving.lag_there(old, row.name, group) for group in _groups(row)}
        published = admin.counts(row.name).get("published", 0)
        left = sum(lag.unsettled or 0 for lag in lags.values())
        dead = sum(lag.dead for lag in lags.values())
        known = all(lag.unsettled is not None for lag in lags.values())
        unread = [behind for _, behind in moving.unread_there(old, row.name)]
        if left or dead or not known or unread or published != cursor.get("published"):
            said = (
                f"{left:,} unsettled and {dead:,} dead letters are left on {old}" if known else f"{old} cannot be asked"
            )
            said = "; ".join([said, *unread])
            step = Step((), {**cursor, "quiet_since": now, "published": published}, finished=False, note=said)
            return lambda: step
        quiet_ms = now - cursor["quiet_since"]
        if quiet_ms < QUIET_MS:
            note = f"{old} is empty; waiting until it has been quiet for {QUIET_MS // 1000} s"
            step = Step((), cursor, finished=False, note=note)
            return lambda: step
        if gone_ms < OLD_RULES_MS:
            note = f"{old} is empty; waiting until nobody can publish to it any more, {OLD_RULES_MS // 1000} s in all"
            step = Step((), cursor, finished=False, note=note)
            return lambda: step
        items = [self._verified(row, group, old, task.spec["to"]) for group in lags]
        return lambda: self._finish(task, items, cursor)

    def _finish(self, task: Task, items: list[Item], cursor: dict[str, Any]) -> Step:
        name, to = task.spec["topic"], task.spec["to"]
        moving.finish_move(task.actor, name, cursor["from"], task.reason)
        return Step(items, cursor, finished=True, note=f"{name} is carried by {to} alone")

    def _verified(self, row: Topic, group: str, old: str, new: str) -> Item:
        """One line of evidence per subscription."""
        parts = []
        for transport in (old, new):
            admin = bus.admin(transport)
            published = admin.counts(row.name).get("published", 0)
            counts, lag = admin.counts(row.name, group), moving.lag_there(transport, row.name, group)
            parts.append(
                f"{transport}: {published:,} published, {counts.get('settled', 0):,} settled, "
                f"{counts.get('dead', 0):,} died, {_told(lag.unsettled)}"
            )
        subject = subscription_subject(row.name, group)
        return Item(f"{row.name}/{group}", subject, Result.DONE, "; ".join(parts))


MOVE = Move()


def _told(unsettled: int | None) -> str:
    """The old transport is known to be empty by then; the new one may not be able to tell just now."""
    return "how much is unsettled cannot be told" if unsettled is None else f"{unsettled:,} unsettled"


def _without(spec: Mapping[str, Any]) -> list[str]:
    return list(spec.get("without", ()))


def _groups(row: Topic) -> list[str]:
    return list(row.subscriptions.order_by("group").values_list("group", flat=True))
