"""The duty that holds the rules against what was measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from django.db import connection, transaction

from engine.core.clock import Clock, SystemClock
from engine.core.subject import Subject
from hbus_console.alerts import judge, messages
from hbus_console.alerts.kinds import kinds
from hbus_console.alerts.models import Alert, Evaluation, Notification, Reading, Rule
from hbus_console.alerts.round import Case, Round
from hbus_console.alerts.silences import Silenced
from hbus_console.alerts.targets import Target, Targets
from hbus_console.alerts.watching import every_target, watched
from hbus_console.parts import Parts

#: A longer pause than this between two rounds is a gap: what happened meanwhile was not watched.
GAP_MS = 60_000
#: Resolved alerts are kept so long, and what was sent.
KEEP_ALERTS_MS = 90 * 24 * 3_600_000
KEEP_SENT_MS = 30 * 24 * 3_600_000
TIDY_EVERY_MS = 600_000
#: Rows removed at once.
BATCH = 1_000
#: Alerts stored at once: a store that comes back may let thousands begin.
BATCH_BEGUN = 500

_OPEN = (Alert.State.PENDING, Alert.State.FIRING)
#: What an evaluation writes, beside the state and what is copied from the rule; never what people have written.
_NUMBERS = ("threshold", "value", "peak", "fired_ms", "better_ms", "resolved_ms", "over_because", "measured_ms",
            "read_ms", "told_ms")  # fmt: skip
# One statement for many rows: going through the models costs several times as much.
_UPDATE = f"""
UPDATE alerts_alert SET state = %s, rule_name = %s, severity = %s, {" = %s, ".join(_NUMBERS)} = %s
WHERE id = %s AND state <> 'resolved'
"""  # noqa: S608 - column names are constants of this module


@dataclass
class Findings:
    """What one evaluation found. ``begun`` are not stored yet."""

    now_ms: int
    watching_ms: int
    rules: dict[int, Rule]
    begun: list[Alert] = field(default_factory=list)
    kept: list[Alert] = field(default_factory=list)
    #: Pending ones that got better: they never were.
    dropped: list[int] = field(default_factory=list)
    #: By their rules: where one could not be judged, its alerts stay as they are.
    judged: Parts = field(default_factory=lambda: Parts("{parts} could not be judged"))


class AlertEvaluator:
    """Reads first, then writes everything in one short transaction. A round that fails leaves no trace, and the next
    one does its work; two evaluators at once would raise no alert twice, because the database refuses it.

    Raises :class:`~engine.core.errors.ConfigurationError` when two features bring a kind of the same name.
    """

    name = "alert-evaluation"
    interval_s = 10.0

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        #: What measures keep from round to round.
        self._kept: dict[Callable[[], Any], Any] = {}
        self._tidy_due_ms = 0
        kinds()

    def tick(self) -> None:
        """One round. A measure that fails keeps no other rule from being judged; it is raised once these are stored."""
        started = self._clock.monotonic()
        now_ms = self._clock.now_ms()
        last = Evaluation.objects.filter(pk=1).first() or Evaluation(pk=1)
        gap = abs(now_ms - last.at_ms) > GAP_MS
        rules = list(Rule.objects.filter(enabled=True))
        targets = every_target()
        found = self._judge(Findings(now_ms, now_ms if gap else last.watching_ms, {it.pk: it for it in rules}), targets)
        with transaction.atomic():
            _store(found, targets)
            values = {
                "at_ms": now_ms,
                "watching_ms": found.watching_ms,
                "took_ms": round((self._clock.monotonic() - started) * 1000),
                "rules": len(rules),
                "targets": len(targets),
            }
            Evaluation.objects.update_or_create(pk=1, defaults=values)
        if now_ms >= self._tidy_due_ms:
            self._tidy_due_ms = now_ms + TIDY_EVERY_MS
            _tidy(now_ms)
        found.judged.tell()

    def _judge(self, found: Findings, targets: Targets) -> Findings:
        now = Round(found.now_ms, found.watching_ms, self._kept)
        alive: dict[int | None, dict[Subject, Alert]] = defaultdict(dict)
        for alert in Alert.objects.filter(state__in=_OPEN):
            alive[alert.rule_id][alert.subject] = alert
        for pk, rule in found.rules.items():
            standing = alive[pk]
            # Measures belong to features: the mistake of one is no reason to judge nothing of the others.
            if not found.judged.do(rule.name, partial(self._judge_rule, found, now, rule, targets, standing)):
                standing.clear()
        for orphans in alive.values():
            for orphan in orphans.values():
                _end(found, orphan, _why_orphaned(orphan))
        return found

    def _judge_rule(
        self, found: Findings, now: Round, rule: Rule, targets: Targets, standing: dict[Subject, Alert]
    ) -> bool:
        for target in watched(rule, targets):
            self._judge_one(found, now, rule, target, standing.pop(target.subject, None))
        return True

    def _judge_one(self, found: Findings, now: Round, rule: Rule, target: Target, alert: Alert | None) -> None:
        kind = kinds()[rule.kind]
        if target.paused and not kind.while_paused:
            if alert is not None:
                _end(found, alert, "It was paused.")
            return
        firing = alert is not None and alert.state == Alert.State.FIRING
        before = (alert.value, alert.measured_ms) if alert is not None else (0.0, 0)
        value = kind.measure(Case(now, target, rule.window_s, firing, *before))
        if value is None:
            return
        if alert is None:
            if not judge.met(rule, value):
                return
            alert = judge.begin(rule, target, value, found.now_ms)
        # What it says names the window and the end of its rule; without this it would be asked for again.
        alert.rule = rule
        if not judge.advance(alert, rule, value, found.now_ms, found.watching_ms):
            found.dropped.append(alert.pk)
        elif alert.pk is None:
            found.begun.append(alert)
        else:
            found.kept.append(alert)


def _why_orphaned(alert: Alert) -> str:
    if alert.kind not in kinds():
        return "Nothing measures it any more: the feature that brings its kind is not installed."
    return "It is not watched any more: the rule or its target has changed or gone."


def _end(found: Findings, alert: Alert, because: str) -> None:
    if alert.state == Alert.State.PENDING:
        found.dropped.append(alert.pk)
    else:
        judge.resolve(alert, found.now_ms, because)
        found.kept.append(alert)


def _store(found: Findings, targets: Targets) -> None:
    # Somebody may have changed or deleted a rule since it was read: then its next round is the one that counts.
    revisions = dict(Rule.objects.values_list("pk", "revision"))
    current = {pk for pk, rule in found.rules.items() if revisions.get(pk) == rule.revision}
    begun = [alert for alert in found.begun if alert.rule_id in current]
    kept = [alert for alert in found.kept if alert.rule_id is None or alert.rule_id in current or alert.resolved_ms]
    Alert.objects.filter(pk__in=found.dropped, state=Alert.State.PENDING).delete()
    # Both SQLite and PostgreSQL give the keys of many rows at once.
    Alert.objects.bulk_create(begun, batch_size=BATCH_BEGUN)
    told = _tell(found, [*begun, *kept], targets)
    readings = []
    for alert in [*begun, *kept]:
        if judge.reading_due(alert, found.now_ms) or alert.resolved_ms:
            alert.read_ms = found.now_ms
            readings.append(Reading(alert_id=alert.pk, at_ms=found.now_ms, value=alert.value))
    with connection.cursor() as cursor:
        changed = [*kept, *(alert for alert in begun if alert.read_ms or alert.pk in told)]
        if changed:
            cursor.executemany(_UPDATE, [_row(alert) for alert in changed])
    Reading.objects.bulk_create(readings, batch_size=500)


def _row(alert: Alert) -> tuple[str | int | float, ...]:
    return (
        str(alert.state),
        alert.rule_name,
        str(alert.severity),
        *(getattr(alert, name) for name in _NUMBERS),
        alert.pk,
    )


def _tell(found: Findings, alerts: Iterable[Alert], targets: Targets) -> set[int]:
    """Leave a message for every channel: one of each rule for all that fired, one for all that is over."""
    silenced = Silenced(found.now_ms)
    news: dict[tuple[int, str], list[Alert]] = defaultdict(list)
    told: set[int] = set()
    for alert in alerts:
        if alert.rule_id is None:
            continue
        if alert.state == Alert.State.FIRING and not alert.told_ms and not silenced.holds(alert):
            alert.told_ms = found.now_ms
            told.add(alert.pk)
            news[alert.rule_id, Notification.Event.FIRED].append(alert)
        elif alert.state == Alert.State.RESOLVED and alert.told_ms:
            # Also while it is silenced: whoever was told of the beginning waits for the end.
            news[alert.rule_id, Notification.Event.RESOLVED].append(alert)
    if news:
        rules = {rule.pk: rule for rule in Rule.objects.prefetch_related("channels")}
        for (pk, event), group in news.items():
            if pk in rules:
                messages.leave(rules[pk], event, group, found.now_ms, targets.teams)
    return told


def _tidy(now_ms: int) -> None:
    old = Alert.objects.filter(state=Alert.State.RESOLVED, resolved_ms__lt=now_ms - KEEP_ALERTS_MS)
    Alert.objects.filter(pk__in=list(old.values_list("pk", flat=True)[:BATCH])).delete()
    sent = Notification.objects.filter(made_ms__lt=now_ms - KEEP_SENT_MS)
    Notification.objects.filter(pk__in=list(sent.values_list("pk", flat=True)[:BATCH])).delete()
