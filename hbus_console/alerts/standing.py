"""How alerts stand: counts for the frame, the list, and whether anybody evaluates at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice

from django.db.models import Case, IntegerField, OuterRef, Q, QuerySet, Subquery, Value, When

from engine.core.clock import SystemClock
from hbus_console import checks, cursors
from hbus_console.access.permissions import GLOBAL, Actor, narrower, visible_scopes
from hbus_console.access.scopes import scopes_q
from hbus_console.alerts.kinds import TONES, URGENCY, AlertKind, kind_named
from hbus_console.alerts.models import Alert, Channel, Evaluation, Notification, Rule, Silence
from hbus_console.alerts.silences import Silenced
from hbus_console.alerts.wording import lingers, measured, sentence
from hbus_console.ui.states import tone_of

#: An evaluation older than this is behind: a round is due every ten seconds.
BEHIND_MS = 60_000
#: Alerts on one page.
PAGE = 50
#: How many that wait for a person are read for the first page, and how many rows at once.
MOST_WAITING, _AT_ONCE = 1_000, 500
_BY_URGENCY = Case(
    *(When(severity=severity, then=Value(rank)) for severity, rank in URGENCY.items()),
    default=Value(len(URGENCY)),
    output_field=IntegerField(),
)
STATES = ("open", "firing", "pending", "resolved")
_clock = SystemClock()


@dataclass(frozen=True)
class AlertRow:
    """An alert as the pages show it."""

    alert: Alert
    silence: Silence | None

    @property
    def kind(self) -> AlertKind:
        return kind_named(self.alert.kind)

    @property
    def state(self) -> str:
        """One word: what a person has done comes before what the rule says."""
        if self.alert.state == Alert.State.FIRING and self.silence is not None:
            return "silenced"
        if self.alert.state == Alert.State.FIRING and self.alert.acknowledged_ms:
            return "acknowledged"
        return str(self.alert.state)

    @property
    def tone(self) -> str:
        return TONES[self.alert.severity] if self.state == "firing" else tone_of(self.state)

    @property
    def value(self) -> str:
        return measured(self.alert)

    @property
    def lingers(self) -> str:
        """Why it still fires with this value."""
        return lingers(self.alert)

    @property
    def ways(self) -> list[tuple[str, str]]:
        """Where the acts are that its advice names: what the link says, and its address."""
        rule, subject = self.alert.rule, self.alert.subject
        if rule is None or self.alert.state == Alert.State.RESOLVED:
            return []
        found = [(it.label, it.address(subject)) for it in self.kind.targets.ways if it.named_in(rule.advice)]
        return [(label, address) for label, address in found if address]

    @property
    def sentence(self) -> str:
        return sentence(self.alert).removesuffix(".")

    @property
    def peak(self) -> str:
        return self.kind.said(self.alert.peak)

    @property
    def threshold(self) -> str:
        return self.kind.said(self.alert.threshold)


@dataclass(frozen=True)
class Health:
    """Whether the rules are held against anything: ``word`` is current, behind, or never.

    ``rules`` are those that can concern what the reader may see; ``targets`` is ``None`` for who may not see them all,
    because a round counts them for everybody. When a round was and how long it took is of the installation.
    """

    state: Evaluation
    word: str
    rules: int
    targets: int | None

    @property
    def tone(self) -> str:
        return "ok" if self.word == "current" else "warn" if self.rules else "neutral"


def health(who: Actor, now_ms: int) -> Health:
    """How the evaluation itself stands, with the figures that ``who`` may know."""
    state = Evaluation.objects.filter(pk=1).first() or Evaluation(pk=1)
    scopes, enabled = visible_scopes(who), Rule.objects.filter(enabled=True)
    if GLOBAL in scopes:
        rules, targets = enabled.count(), state.targets
    else:
        rules, targets = sum(can_concern(scopes, scope) for scope in enabled.values_list("scope", flat=True)), None
    if not state.at_ms:
        return Health(state, "never", rules, targets)
    return Health(state, "current" if abs(now_ms - state.at_ms) <= BEHIND_MS else "behind", rules, targets)


def can_concern(scopes: Sequence[str], scope: str) -> bool:
    """Whether a rule on ``scope`` can concern anything in one of ``scopes``."""
    return any(narrower(one, scope) is not None for one in scopes)


def waiting(scopes: tuple[str, ...], now_ms: int) -> list[Alert]:
    """What fires in ``scopes`` and nobody has acknowledged or silenced, the most urgent first and of these the newest;
    :data:`MOST_WAITING` at most."""
    rows = _unacknowledged(scopes).select_related("rule").order_by(_BY_URGENCY, "-fired_ms", "-pk")
    some = rows.iterator(_AT_ONCE)
    if (first := next(some, None)) is None:
        return []
    silenced = Silenced(now_ms)
    return list(islice((row for row in chain([first], some) if not silenced.holds(row)), MOST_WAITING))


def count(scopes: tuple[str, ...], now_ms: int) -> int:
    """How many wait for a person, however many: a small query or two, and one through all while any is silenced."""
    firing = _unacknowledged(scopes)
    if not (number := firing.count()) or not (silenced := Silenced(now_ms)):
        return number
    rows = firing.only("rule_id", "subject_kind", "namespace", "subject_name").order_by()
    return sum(not silenced.holds(row) for row in rows.iterator(_AT_ONCE))


def _unacknowledged(scopes: tuple[str, ...]) -> QuerySet[Alert]:
    return Alert.objects.filter(scopes_q(scopes, "namespace"), state=Alert.State.FIRING, acknowledged_ms=0)


def firing(who: Actor) -> int:
    """How many wait for a person now, in what ``who`` may see."""
    return count(visible_scopes(who), _clock.now_ms())


def failing_channels(since_ms: int) -> list[Notification]:
    """Of each channel that is on and whose newest message since then was given up, that message."""
    # Asked of each channel: among the newest messages of all, a busy one would hide the others.
    own = Notification.objects.filter(channel=OuterRef("pk"), made_ms__gte=since_ms)
    newest = own.exclude(state=Notification.State.WAITING).order_by("-made_ms", "-pk").values("pk")[:1]
    told = Channel.objects.filter(enabled=True).annotate(newest=Subquery(newest)).values("newest")
    rows = Notification.objects.filter(pk__in=told, state=Notification.State.FAILED).select_related("channel")
    return list(rows.order_by("-made_ms", "-pk"))


@dataclass(frozen=True)
class AlertFilters:
    """What the list is narrowed to."""

    state: str = "open"
    severity: str = ""
    rule: str = ""
    namespace: str = ""

    @classmethod
    def read(cls, query: dict[str, str]) -> AlertFilters:
        """From query parameters; raises ``BadInput`` for a state or a severity that there is not."""
        severity = query.get("severity", "")
        return cls(
            checks.choice(query.get("state", "") or "open", "state", STATES),
            severity and checks.choice(severity, "severity", URGENCY),
            query.get("rule", "").strip(),
            query.get("topic", "").strip(),
        )

    @property
    def narrowed(self) -> bool:
        return bool(self.severity or self.rule or self.namespace)

    def rows(self, who: Actor) -> QuerySet[Alert]:
        """The alerts that fit, not ordered."""
        found = Alert.objects.filter(scopes_q(visible_scopes(who), "namespace"))
        if self.state == "open":
            found = found.filter(state__in=(Alert.State.FIRING, Alert.State.PENDING))
        else:
            found = found.filter(state=self.state)
        if self.severity:
            found = found.filter(severity=self.severity)
        if self.rule:
            found = found.filter(rule_name=self.rule)
        if self.namespace:
            found = found.filter(namespace=self.namespace)
        return found


def listed(who: Actor, filters: AlertFilters, cursor: str, now_ms: int) -> tuple[list[AlertRow], str]:
    """One page, firing before pending, the most urgent and then the newest first; and the next page's cursor.

    Raises :class:`~engine.core.errors.BadInput` for a cursor that no page gave.
    """
    found = filters.rows(who).annotate(
        rank=Case(
            *(
                When(Q(state=state, severity=severity), then=Value(number))
                for number, (state, severity) in enumerate(
                    (state, severity) for state in ("firing", "pending", "resolved") for severity in URGENCY
                )
            ),
            output_field=IntegerField(),
        )
    )
    if cursor:
        rank, number = cursors.read(cursor, 2)
        found = found.filter(cursors.beyond({"rank": rank, "-pk": number}))
    rows, last = cursors.cut(found.select_related("rule").order_by("rank", "-pk")[: PAGE + 1], PAGE)
    return shown(rows, now_ms), cursors.written(last.rank, last.pk) if last else ""


def shown(alerts: Sequence[Alert], now_ms: int) -> list[AlertRow]:
    """With what silences them."""
    silenced = Silenced(now_ms)
    return [AlertRow(alert, silenced.of(alert)) for alert in alerts]


def silences(who: Actor, now_ms: int) -> QuerySet[Silence]:
    """Those that hold now, the first to end first."""
    rows = Silence.objects.filter(scopes_q(visible_scopes(who), "namespace"), until_ms__gt=now_ms)
    return rows.select_related("rule").order_by("until_ms")
