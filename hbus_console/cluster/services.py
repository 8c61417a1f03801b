"""The installation as the cluster page, its endpoint and the overview's strip show it. Reading only.

Sorts what the stamps, the supervisor, the store and the databases say into roles, consumers and duties. Nothing raises
for a part that is away: it is shown as away.

Roles, processes, the store, the databases, when duties ran and how many facts were dropped are of the installation as a
whole, and every reader's. What names topics is not: consumers are those of the reader's scopes, also where they are
only counted; what a duty or a process says went wrong, and what a role has to do, is said to who may see everything.
How much memory and disk are taken, and how much goes on in the store, is told to who may reveal everything.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import redis
from django.conf import settings

from engine.core.clock import Clock, SystemClock
from engine.core.error_text import class_of, words_of
from engine.core.errors import ConfigurationError
from hbus_console.access.permissions import GLOBAL, Actor, covers, visible_scopes
from hbus_console.cluster import asking, probes
from hbus_console.cluster.asking import FeatureHealth
from hbus_console.cluster.feature import CLUSTER_WEIGH
from hbus_console.evidence.models import Notice
from hbus_console.evidence.totals import total
from hbus_console.nodes.stamps import Node, read_nodes
from hbus_console.registry.loading import features, resolve
from hbus_console.spark_fetch import progress
from hbus_console.supervisor import roles as supervised
from hbus_console.supervisor import status
from hbus_console.supervisor.roles import SupervisedRole
from hbus_console.supervisor.state import NOT_READY, READY
from hbus_console.ui.formats import listed, size
from hbus_console.ui.polling import once_a_poll

#: Evidence dropped within so long is still worth saying.
_LATELY_MS = 24 * 3600 * 1000
#: In the place of an error that may name what its reader may not see.
UNSAID = "What went wrong is said to who may see every topic."


#: Of a role that lives, and whose work does not go well.
TROUBLED = "in trouble"
#: And of one that lives and has more to do than it can.
BUSY = "busy"


@dataclass(frozen=True)
class RoleStanding:
    """All processes of one role. ``note`` is a short phrase for the overview's strip."""

    name: str
    tone: str
    word: str
    note: str


@dataclass(frozen=True)
class HostedSubscription:
    """One subscription as one node runs it."""

    topic: str
    group: str
    node: str
    state: str
    in_flight: int | None
    turned_ms: int
    #: What went wrong last, when, and whether it works again since.
    error: str
    error_ms: int = 0
    recovered: bool = False


@dataclass(frozen=True)
class DutyLine:
    """One duty of the keeper on the node that does it (or last did)."""

    name: str
    node: str
    state: str
    ticks: int
    failures: int
    last_tick_ms: int
    last_tick_us: int
    last_error: str

    @property
    def tone(self) -> str:
        return "bad" if self.state in ("store lost", "nowhere", "hung") else "warn" if self.last_error else "ok"


@dataclass(frozen=True)
class Cluster:
    """Everything the page says. ``memory`` is the resident bytes of all processes on this machine."""

    roles: list[RoleStanding]
    processes: list[status.ProcessLine]
    memory: int
    store: probes.StoreState
    databases: list[probes.DatabaseState]
    consumers: list[HostedSubscription]
    duties: list[DutyLine]
    facts_dropped: int
    nodes_error: str = ""
    idle: list[tuple[str, str, str]] = field(default_factory=list)
    #: Beside store and databases: what features stand on.
    standings: list[FeatureHealth] = field(default_factory=list)
    #: How many more no handler is known for, for a reader of every topic; a worker names only the first.
    idle_unnamed: int = 0
    #: How far the fetch of Spark beside this console is, or that it failed; empty where there is none.
    spark: str = ""
    #: What it failed of, in pip's words.
    spark_failure: str = ""

    @property
    def silent(self) -> int:
        """How many of the consumers have told nothing for so long that nobody takes them for running."""
        return sum(line.state == "silent" for line in self.consumers)

    @property
    def over(self) -> list[tuple[str, int, int]]:
        """What consumers have recovered from, each once: what it was, how many met it, and when it was last."""
        found: dict[str, list[int]] = {}
        for line in self.consumers:
            if line.error and line.recovered:
                found.setdefault(line.error, []).append(line.error_ms)
        return [(error, len(times), max(times)) for error, times in found.items()]

    @property
    def running(self) -> int:
        return len(self.consumers) - self.silent

    @property
    def kept(self) -> str:
        """What stands still while no keeper runs."""
        return kept_words()

    @property
    def worst(self) -> str:
        """``ok``, ``warn`` or ``bad``."""
        tones = {role.tone for role in self.roles} | {each.tone for each in self.standings}
        tones |= {"warn"} if any(line.last_error and not line.last_error_age_s for line in self.processes) else set()
        cares = "warn" in tones or self.facts_dropped or self.wrong_clocks
        return "bad" if "bad" in tones else "warn" if cares else "ok"

    @property
    def machines(self) -> int:
        """On how many machines the processes run. The supervisor's own are told without one: they are on this."""
        return len({line.host or socket.gethostname() for line in self.processes})

    @property
    def wrong_clocks(self) -> list[status.ProcessLine]:
        """Processes whose clock is further from the store's than it may be."""
        return [line for line in self.processes if line.clock_wrong]


def cluster(who: Actor, clock: Clock | None = None) -> Cluster:
    """The installation now; consumers only of the topics that ``who`` may see."""
    clock = clock or SystemClock()
    asked = asking.begin()
    store = probes.store_state()
    found, error = living(clock)
    databases = probes.database_states()
    now = status.collect(settings.STATE, found, clock, clock_alarm_ms=settings.CLOCK_ALARM_MS)
    scopes = visible_scopes(who)
    store, databases = told_amounts(who, store, databases)
    tells = _may_weigh(who)
    fetch = progress.read(settings.STATE)
    return Cluster(
        roles=roles(found, store, databases, scopes),
        processes=[
            replace(
                _asked_now(line, store),
                last_error=said(line.last_error, scopes),
                memory=line.memory if tells else 0,
            )
            for line in now.lines
        ],
        memory=now.memory if tells else 0,
        store=store,
        databases=databases,
        consumers=[line for line in consumers(found) if _visible(scopes, line.topic)],
        duties=duties(found, scopes),
        facts_dropped=facts_dropped(clock.now_ms()),
        nodes_error=error,
        standings=asking.answers(asked),
        idle=[line for line in idle(found) if _visible(scopes, line[0])],
        idle_unnamed=idle_unnamed(found) if GLOBAL in scopes else 0,
        spark=fetch.words if fetch else "",
        spark_failure=said(fetch.said, scopes) if fetch else "",
    )


def told_amounts(
    who: Actor, store: probes.StoreState, databases: Sequence[probes.DatabaseState]
) -> tuple[probes.StoreState, list[probes.DatabaseState]]:
    """Both as ``who`` may be told them: what they weigh goes by what lies in them, hidden or elsewhere."""
    if _may_weigh(who):
        return store, list(databases)
    return store.without_amounts(), [each.without_size() for each in databases]


def _may_weigh(who: Actor) -> bool:
    return GLOBAL in visible_scopes(who, CLUSTER_WEIGH)


def _asked_now(line: status.ProcessLine, store: probes.StoreState) -> status.ProcessLine:
    """The embedded store as it is now: the supervisor asks it again only after some seconds."""
    if line.role != "store" or line.state != READY or not store.error:
        return line
    return replace(line, state=NOT_READY if store.condition else "does not answer")


def said(error: str, scopes: Sequence[str]) -> str:
    """What went wrong, for a reader of ``scopes``: whoever may not see every topic hears that something did."""
    return error if GLOBAL in scopes or not error else UNSAID


def nodes(clock: Clock | None = None) -> list[Node]:
    """The nodes, as every page, alert and act has them: silent is what has not told for too long, and what died on this
    machine from then on. Raises ``redis.RedisError`` and ``ConfigurationError``.
    """
    return status.without_the_dead(
        settings.STATE, read_nodes(probes.client(), settings.HBUS_PREFIX, clock or SystemClock())
    )


def living(clock: Clock | None = None) -> tuple[list[Node], str]:
    """Likewise, or none and why they could not be read."""
    try:
        return nodes(clock), ""
    except (redis.RedisError, ConfigurationError) as error:
        return [], words_of(error) or class_of(error)


def roles(
    found: Sequence[Node],
    store: probes.StoreState,
    databases: Sequence[probes.DatabaseState],
    scopes: Sequence[str],
) -> list[RoleStanding]:
    """Store and databases (when given) first, then each role with how many of it live, for a reader of ``scopes``."""
    unknown = ""
    if store.error or store.refusal:
        unknown = f"not known while the store {'does not answer' if store.error else 'takes no writes'}"
    return [
        _store_role(store),
        *([_database_role(databases)] if databases else []),
        *(
            _role(role, nodes, unknown, scopes)
            for role in supervised.roles().values()
            if not role.embedded and ((nodes := _of(role, found)) or role.declared.usual)
        ),
    ]


def consumers(found: Sequence[Node]) -> list[HostedSubscription]:
    """Every subscription that some consumer runs, by topic and group."""
    lines = []
    for node in found:
        for line in _maps(node.detail.get("consumers")):
            in_flight, error_ms = line.get("in_flight"), int(line.get("last_error_ms") or 0)
            lines.append(
                HostedSubscription(
                    topic=str(line.get("topic", "")),
                    group=str(line.get("group", "")),
                    node=node.name,
                    state="silent" if node.silent else str(line.get("state", "running")),
                    in_flight=int(in_flight) if isinstance(in_flight, int) else None,
                    turned_ms=int(line.get("turned_ms") or node.stamp_ms),
                    error=str(line.get("last_error") or line.get("error") or ""),
                    error_ms=error_ms,
                    recovered=0 < error_ms < int(line.get("recovered_ms") or 0),
                )
            )
    return sorted(lines, key=lambda line: (line.topic, line.group, line.node))


def idle(found: Sequence[Node]) -> list[tuple[str, str, str]]:
    """Subscriptions (topic, group) that no living node runs, with the reason one of them gives."""
    running = {(line.topic, line.group) for line in consumers(found) if line.state != "silent"}
    reasons: dict[tuple[str, str], str] = {}
    for node in found:
        if not node.silent:
            for line in _maps(node.detail.get("idle")):
                reasons[str(line.get("topic", "")), str(line.get("group", ""))] = str(line.get("why", ""))
    return [(topic, group, why) for (topic, group), why in sorted(reasons.items()) if (topic, group) not in running]


def idle_unnamed(found: Sequence[Node]) -> int:
    """How many subscriptions, beside those of :func:`idle`, every living worker lacks a handler for; at most: one that
    names none knows them all."""
    workers = [node.detail for node in found if not node.silent and "consumers" in node.detail]
    counts = [detail.get("idle_unnamed") for detail in workers]
    return min((count if isinstance(count, int) else 0 for count in counts), default=0)


def duties(found: Sequence[Node], scopes: Sequence[str]) -> list[DutyLine]:
    """One line a duty, for a reader of ``scopes``: the node that does it now, else whoever knows of it."""
    best: dict[str, DutyLine] = {}
    for node in found:
        for line in _maps(node.detail.get("duties")):
            name, state = str(line.get("name", "")), str(line.get("state", ""))
            if node.silent or state == "stopped":
                state = "nowhere"
            held = best.get(name)
            if held is not None and not (_rank(state) < _rank(held.state)):
                continue
            best[name] = DutyLine(
                name=name,
                node=node.name,
                state=state,
                ticks=int(line.get("ticks") or 0),
                failures=int(line.get("failures") or 0),
                last_tick_ms=int(line.get("last_tick_ms") or 0),
                last_tick_us=round(float(line.get("last_tick_s") or 0) * 1_000_000),
                last_error=said(str(line.get("last_error") or ""), scopes),
            )
    return [best[name] for name in sorted(best)]


def facts_dropped(now_ms: int) -> int:
    """How many facts of evidence were dropped within the last day."""
    rows = Notice.objects.filter(kind="facts_dropped", at_ms__gte=now_ms - _LATELY_MS)
    return rows.aggregate(total=total("count"))["total"] or 0


def _of(role: SupervisedRole, found: Sequence[Node]) -> list[Node]:
    return [node for node in found if node.role == role.name]


def kept_words() -> str:
    """What stands still while no keeper runs, as the features say it: ``delays, outbox and evidence``."""
    return listed(word for feature in reversed(features()) for word in feature.kept)


def _role(role: SupervisedRole, found: Sequence[Node], unknown: str, scopes: Sequence[str]) -> RoleStanding:
    name = role.name
    alive = [node for node in found if not node.silent]
    silent = len(found) - len(alive)
    if unknown:
        return RoleStanding(name, "warn", "unknown", unknown)
    if not alive and not role.declared.stamps:
        return RoleStanding(name, "warn", "not stamped", "this process was started without its role")
    if not alive and role.declared.unneeded and resolve(role.declared.unneeded)():
        return RoleStanding(name, "ok", "not needed", role.declared.unneeded_words)
    if not alive:
        return RoleStanding(name, "bad", "none alive", role.declared.without.format(kept=kept_words()))
    if silent:
        count = _count(len(alive), "node")
        return RoleStanding(name, "warn", f"{silent} silent", f"{count} alive, {silent} silent")
    told, tone = once_a_poll(resolve(role.declared.telling)) if role.declared.telling else ("", "")
    return _telling(_living(name, alive, scopes), told if GLOBAL in scopes else "", tone)


def _telling(standing: RoleStanding, told: str, tone: str) -> RoleStanding:
    """With what the role itself has to say while it lives."""
    note = " · ".join(part for part in (standing.note, told) if part)
    if tone and standing.tone == "ok":
        return RoleStanding(standing.name, tone, BUSY, note)
    return replace(standing, note=note)


def _living(name: str, alive: Sequence[Node], scopes: Sequence[str]) -> RoleStanding:
    count, words = _count(len(alive), "node"), _detail_words(name, alive, scopes)
    note = " · ".join(part for part in (count, words) if part)
    tones = {duty.tone for duty in duties(alive, scopes)} if name == "keeper" else set()
    if tones - {"ok"}:
        return RoleStanding(name, "bad" if "bad" in tones else "warn", TROUBLED, note)
    return RoleStanding(name, "ok", "alive", note)


def _detail_words(name: str, alive: Sequence[Node], scopes: Sequence[str]) -> str:
    if name == "consumer":
        seen = {(line.topic, line.group) for line in consumers(alive) if _visible(scopes, line.topic)}
        return _count(len(seen), "subscription")
    if name == "keeper":
        found = duties(alive, scopes)
        hung = sum(1 for duty in found if duty.state == "hung")
        failing = sum(1 for duty in found if duty.last_error)
        troubles = [f"{many} {word}" for many, word in ((hung, "hung"), (failing, "failing")) if many]
        return f"{', '.join(troubles)} of {len(found)} duties" if troubles else f"{len(found)} duties"
    opened = sum(int(node.detail.get("open") or 0) for node in alive)
    return _count(opened, "connection") if opened else ""


def _store_role(store: probes.StoreState) -> RoleStanding:
    if store.error:
        return RoleStanding("store", "bad", "does not answer", store.error)
    if store.refusal:
        return RoleStanding("store", "bad", "takes no writes", store.refusal)
    weight = "" if store.memory is None else size(store.memory)
    parts = (f"{store.server} {store.version}", weight, "AOF" if store.durable else "not durable")
    note = " · ".join(part for part in parts if part)
    return RoleStanding("store", store.tone, "answers" if store.tone == "ok" else "needs care", note)


def _database_role(databases: Sequence[probes.DatabaseState]) -> RoleStanding:
    away = [state for state in databases if state.error]
    if away:
        return RoleStanding("database", "bad", "does not answer", f"{away[0].alias}: {away[0].error}")
    main = databases[0]
    sizes = [state.size for state in databases if state.size is not None]
    total = size(sum(sizes)) if sizes else ""
    return RoleStanding(
        "database", "ok", "answers", " · ".join(part for part in (main.engine, main.journal, total) if part)
    )


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _rank(state: str) -> int:
    return {"running": 0, "hung": 1, "store lost": 2, "out of connections": 2, "elsewhere": 3}.get(state, 4)


def _maps(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _visible(scopes: Sequence[str], topic: str) -> bool:
    return any(covers(scope, topic) for scope in scopes)
