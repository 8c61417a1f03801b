"""What needs a person now: each concern one sentence, with the one next step. The worst comes first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import urlencode

from django.db.models import Count, Max, Min, Q, Sum
from django.urls import reverse

from hbus_console.access.permissions import GLOBAL, SOMEWHERE, Actor, allows, visible_scopes
from hbus_console.access.scopes import scopes_q
from hbus_console.alerts import standing as alert_standing
from hbus_console.alerts.feature import ALERT_CHANNEL
from hbus_console.alerts.kinds import kind_named
from hbus_console.alerts.models import Alert
from hbus_console.audit.feature import AUDIT_READ
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.state import chain_state
from hbus_console.cluster import services as cluster
from hbus_console.cluster.nodes import Node
from hbus_console.cluster.probes import StoreState
from hbus_console.evidence.kinds import kinds
from hbus_console.evidence.models import Notice
from hbus_console.outbox.models import OutboxMessage
from hbus_console.overview import failed
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services import open_breakers
from hbus_console.topics.models import Topic
from hbus_console.traffic.flow import LagNow
from hbus_console.ui.concern import MOST_OF_A_KIND, Concern, spell
from hbus_console.ui.formats import clock, duration, num

#: Roles whose absence stops something; whoever reads this has reached a web process.
_STAMPING = ("consumer", "keeper")
#: How long a notice of the engine stays on the list.
NOTICED_MS = 6 * 3600 * 1000
#: A message that waits longer than this behind a subscription that is not paused means somebody should look.
WAITS_TOO_LONG_MS = 5 * 60 * 1000


def concerns(
    who: Actor,
    now_ms: int,
    store: StoreState,
    nodes: Sequence[Node],
    lag: Iterable[LagNow],
    *,
    alerts: Sequence[Alert] = (),
) -> list[Concern]:
    """Everything that waits for somebody, in what ``who`` may see; the worst first, otherwise in this order."""
    scopes = visible_scopes(who)
    lag = list(lag)
    found = [
        *_installation(store, nodes),
        *_audit(who),
        *_alerts(who, alerts, now_ms),
        *failed.full(scopes, alerts),
        *failed.dead(scopes),
        *_outbox(scopes),
        *_breakers(scopes),
        *_hung(scopes, nodes),
        *_ownerless(scopes),
        *_ownerless_readers(scopes),
        *_notices(scopes, now_ms),
        *failed.parked(scopes, lag, alerts),
        *_waiting(scopes, _not_alerted(lag, alerts), now_ms),
        *_paused(scopes),
    ]
    return sorted(found, key=lambda concern: concern.urgency)


def _installation(store: StoreState, nodes: Sequence[Node]) -> list[Concern]:
    page = reverse("cluster:overview")
    found = [
        Concern(
            "bad" if store.error or store.refusal else "warn", text.rstrip("."), store.address, page, "Open cluster"
        )
        for text in store.troubles
    ]
    if store.error or store.refusal:
        # Nobody can stamp: that nobody does says nothing.
        return found
    for role in cluster.roles(nodes, store, ()):
        if role.name not in _STAMPING or role.tone == "ok":
            continue
        text = f"No {role.name} is alive" if role.tone == "bad" else f"A {role.name} has fallen silent"
        found.append(Concern(role.tone, text, role.note, page, "Open cluster"))
    failing = [duty for duty in cluster.duties(nodes) if duty.last_error]
    found += [
        Concern("warn", f"The duty {duty.name} fails", duty.last_error, page, "Open cluster")
        for duty in failing[:MOST_OF_A_KIND]
    ]
    return found


def _audit(who: Actor) -> list[Concern]:
    if not allows(who, AUDIT_READ, SOMEWHERE):
        return []
    state = chain_state()
    if state.verified is None or state.verified.holds:
        return []
    findings = state.verified.findings
    note = findings[0].what if findings else "the last verification did not hold"
    return [Concern("bad", "The audit log has been tampered with", note, reverse("audit:list"), "Open audit log")]


def _alerts(who: Actor, alerts: Sequence[Alert], now_ms: int) -> list[Concern]:
    """One line a rule. What failed has lines of its own, which lead to it."""
    page, found = reverse("alerts:list"), []
    rules: dict[str, list[Alert]] = {}
    for alert in alerts:
        if not kind_named(alert.kind).told(alert.value):
            rules.setdefault(alert.rule_name, []).append(alert)
    for name, group in rules.items():
        first = group[0]
        since = f"since {clock(min(it.fired_ms for it in group))[:5]}"
        if len(group) == 1:
            text, href = f"{name}: {first.target}", reverse("alerts:alert", args=[first.pk])
            note = f"{kind_named(first.kind).said(first.value)} · {since}"
        else:
            text, href = f"{name}: {num(len(group))} targets", f"{page}?{urlencode({'rule': name})}"
            note = f"{first.target} and others · {since}"
        found.append(Concern("bad" if first.severity == "critical" else "warn", text, note, href, "Open"))
    if len(found) > MOST_OF_A_KIND:
        more = Concern("warn", "Further alert rules fire", f"{num(len(found) - MOST_OF_A_KIND)} more", page, "See all")
        found = [*found[:MOST_OF_A_KIND], more]
    if allows(who, ALERT_CHANNEL):
        found += [
            Concern(
                "warn",
                f"Alerts do not reach {row.channel.name}",
                f"{row.answer} · at {clock(row.made_ms)[:5]}",
                reverse("alerts:channel", args=[row.channel_id]),
                "Open channel",
            )
            for row in alert_standing.failing_channels(now_ms - NOTICED_MS)[:MOST_OF_A_KIND]
        ]
    state = alert_standing.health(now_ms)
    if state.word == "behind" and state.rules:
        note = f"last evaluated at {clock(state.state.at_ms)[:5]}; until then nothing new can fire"
        found.append(Concern("warn", "Alert rules are not being evaluated", note, page, "Open alerts"))
    return found


def _not_alerted(lag: Iterable[LagNow], alerts: Sequence[Alert]) -> list[LagNow]:
    """What an alert says already is not said twice."""
    said = {(alert.namespace, alert.subject_name) for alert in alerts if alert.kind in ("lag", "oldest")}
    return [line for line in lag if (line.topic, line.subscription) not in said]


def _ownerless(scopes: tuple[str, ...]) -> list[Concern]:
    names = list(
        Topic.objects.filter(scopes_q(scopes, "name"), team=None).values_list("name", flat=True)[: MOST_OF_A_KIND + 1]
    )
    return spell(
        names,
        lambda name: Concern(
            "bad",
            f"{name} has no owner",
            "every publish to it is refused",
            reverse("topics:detail", args=[name]),
            "Name an owner",
        ),
        Concern(
            "bad",
            "Further topics have no owner",
            "every publish to them is refused",
            reverse("topics:list"),
            "See topics",
        ),
    )


def _ownerless_readers(scopes: tuple[str, ...]) -> list[Concern]:
    rows = list(
        Subscription.objects.filter(scopes_q(scopes, "topic__name"), team=None)
        .order_by("topic__name", "group")
        .values_list("topic__name", "group")[: MOST_OF_A_KIND + 1]
    )
    return spell(
        rows,
        lambda row: Concern(
            "warn",
            f"{row[1]} on {row[0]} has no owner",
            "nobody is asked when it fails",
            reverse("subscriptions:settings", args=row),
            "Name an owner",
        ),
        Concern(
            "warn",
            "Further subscriptions have no owner",
            "nobody is asked when they fail",
            f"{reverse('subscriptions:list')}?owner=-",
            "See all",
        ),
    )


def _breakers(scopes: tuple[str, ...]) -> list[Concern]:
    rows = Subscription.objects.filter(scopes_q(scopes, "topic__name")).values_list("topic__name", "group")
    return spell(
        sorted(open_breakers(list(rows))),
        lambda row: Concern(
            "bad",
            f"The breaker of {row[1]} on {row[0]} is open",
            "nothing is delivered meanwhile",
            reverse("subscriptions:detail", args=row),
            "Open",
        ),
        Concern("bad", "Further breakers are open", "", reverse("subscriptions:list"), "See all"),
    )


def _hung(scopes: tuple[str, ...], nodes: Sequence[Node]) -> list[Concern]:
    """Handlers that do not return, by the word of consumers that are alive."""
    seen = set(Subscription.objects.filter(scopes_q(scopes, "topic__name")).values_list("topic__name", "group"))
    longest: dict[tuple[str, str], tuple[float, str]] = {}
    for node in nodes:
        for status in () if node.silent else node.detail.get("consumers", ()):
            key = (str(status.get("topic")), str(status.get("group")))
            running = [float(one["running_s"]) for one in status.get("hung", ()) if not one["given_up"]]
            if key in seen and running:
                longest[key] = max(longest.get(key, (0.0, "")), (max(running), node.name))
    return spell(
        sorted(longest.items(), key=lambda item: -item[1][0]),
        lambda item: Concern(
            "bad",
            f"A handler of {item[0][1]} on {item[0][0]} does not return",
            f"hung for {duration(round(item[1][0] * 1e6))} on {item[1][1]}",
            reverse("subscriptions:detail", args=item[0]),
            "Open",
        ),
        Concern("bad", "Further handlers do not return", "", reverse("subscriptions:list"), "See all"),
    )


def _outbox(scopes: tuple[str, ...]) -> list[Concern]:
    """Messages that the bus refused for good: the change that wrote them is made, and nobody will hear of it."""
    groups = list(
        OutboxMessage.objects.filter(scopes_q(scopes), refused_at__isnull=False)
        .values("topic")
        .annotate(count=Count("id"), since=Min("refused_at"), why=Max("last_error"))
        .order_by("-count", "topic")[: MOST_OF_A_KIND + 1]
    )
    return spell(
        groups,
        lambda group: Concern(
            "bad",
            f"The bus refused {_messages(group['count'])} of the outbox for {group['topic']}",
            f"{group['why']} · since {clock(group['since'])[:5]} · after mending: manage.py outbox retry",
            f"{reverse('topics:list')}?{urlencode({'q': group['topic']})}",
            "Open topic",
        ),
        Concern(
            "bad",
            "The bus refused messages of the outbox for further topics",
            "after mending: manage.py outbox retry",
            reverse("topics:list"),
            "See topics",
        ),
    )


def _messages(count: int) -> str:
    return "a message" if count == 1 else f"{num(count)} messages"


def _notices(scopes: tuple[str, ...], now_ms: int) -> list[Concern]:
    # Q() | x is x, not everything.
    seen = scopes_q(scopes) | Q(topic="") if GLOBAL not in scopes else Q()
    rows = Notice.objects.filter(seen, at_ms__gte=now_ms - NOTICED_MS, kind__in=_calling())
    groups = rows.values("kind", "topic", "subscription").annotate(total=Sum("count"), newest=Max("id"))
    totals = {group["newest"]: group["total"] for group in groups.order_by("-newest")[: MOST_OF_A_KIND * 2]}
    return [_notice(row, totals[row.pk]) for row in Notice.objects.filter(pk__in=totals).order_by("pk")]


def _calling() -> list[str]:
    """The kinds of facts that call for a person."""
    return [kind.name for kind in kinds().values() if kind.calls_for_a_person]


def _notice(row: Notice, count: int) -> Concern:
    place = f"{row.subscription} on {row.topic}" if row.subscription else row.topic or "the installation"
    text = kinds()[row.kind].calls_for_a_person.format(
        place=place, namespace=row.topic, name=row.subscription or "a subscription", amount=num(count)
    )
    note = " · ".join(part for part in (row.detail, f"at {clock(row.at_ms)[:5]}", row.node) if part)
    if row.subscription:
        return Concern("warn", text, note, reverse("subscriptions:detail", args=[row.topic, row.subscription]), "Open")
    if row.topic:
        return Concern("warn", text, note, reverse("topics:detail", args=[row.topic]), "Open")
    return Concern("warn", text, note, reverse("cluster:overview"), "Open cluster")


def _waiting(scopes: tuple[str, ...], lag: Iterable[LagNow], now_ms: int) -> list[Concern]:
    late = [
        line for line in lag if line.oldest_ms and (line.unsettled or 0) and now_ms - line.oldest_ms > WAITS_TOO_LONG_MS
    ]
    if not late:
        return []
    held = set(
        Subscription.objects.filter(scopes_q(scopes, "topic__name"), paused=True).values_list("topic__name", "group")
    )
    late = [line for line in late if (line.topic, line.subscription) not in held]
    late.sort(key=lambda line: line.oldest_ms or 0)
    return [
        Concern(
            "warn",
            f"{line.subscription} on {line.topic} falls behind",
            f"{num(line.unsettled)} unsettled, the oldest for {duration((now_ms - (line.oldest_ms or 0)) * 1000)}",
            reverse("subscriptions:detail", args=[line.topic, line.subscription]),
            "Open",
        )
        for line in late[:MOST_OF_A_KIND]
    ]


def _paused(scopes: tuple[str, ...]) -> list[Concern]:
    rows = list(
        Subscription.objects.filter(scopes_q(scopes, "topic__name"), paused=True).select_related("topic")[
            : MOST_OF_A_KIND + 1
        ]
    )
    topics = list(Topic.objects.filter(scopes_q(scopes, "name"), paused=True)[: MOST_OF_A_KIND + 1])
    acts = _last_acts([*(f"{row.topic.name}/{row.group}" for row in rows), *(topic.name for topic in topics)])
    more = Concern("warn", "Further subscriptions are paused", "", reverse("subscriptions:list"), "See all")
    found = spell(
        topics,
        lambda topic: Concern(
            "warn",
            f"{topic.name} is paused",
            _why(acts, topic.name, ""),
            reverse("topics:detail", args=[topic.name]),
            "Open",
        ),
        Concern("warn", "Further topics are paused", "", reverse("topics:list"), "See topics"),
    )
    found += spell(
        rows,
        lambda row: Concern(
            "warn",
            f"{row.group} on {row.topic.name} is paused",
            _why(acts, f"{row.topic.name}/{row.group}", row.pause_reason),
            reverse("subscriptions:detail", args=[row.topic.name, row.group]),
            "Open",
        ),
        more,
    )
    return found


def _last_acts(targets: list[str]) -> dict[str, AuditEntry]:
    if not targets:
        return {}
    wanted = ["topic.pause", "subscription.pause", "subscription.drain"]
    return {
        entry.target: entry
        for entry in AuditEntry.objects.filter(target__in=targets, action__in=wanted).order_by("seq")
    }


def _why(acts: dict[str, AuditEntry], target: str, reason: str) -> str:
    entry = acts.get(target)
    if entry is None:
        return f"“{reason}”" if reason else "nobody said why"
    words = entry.reason or reason
    return f"by {entry.actor} at {clock(entry.at)[:5]}" + (f": “{words}”" if words else ", without a reason")
