"""What alert rules may watch of the traffic, read from what the keeper has stored and never from the store itself."""

from __future__ import annotations

from collections.abc import Mapping

from django.db.models import BooleanField
from django.db.models.expressions import RawSQL

from hbus_console.alerts.kinds import AlertKind, DefaultRule
from hbus_console.alerts.round import Case, Round, at_least, evidence
from hbus_console.evidence.freshness import FACTS
from hbus_console.evidence.totals import total
from hbus_console.messages.models import FlowSample
from hbus_console.subscriptions.targets import SUBSCRIPTIONS
from hbus_console.topics.targets import TOPICS
from hbus_console.traffic.lag import newest_sample
from hbus_console.traffic.pulse import BUCKET_MS, Pulse

# The comparison stands in the SQL itself: SQLite uses the partial index only when it can read it there.
_FAILED = RawSQL("failed > 0", (), output_field=BooleanField())


def _lag(case: Case) -> float | None:
    sampled = case.round.once(newest_sample).get(case.target.key)
    return None if sampled is None or sampled.unsettled is None else float(sampled.unsettled)


def _oldest(case: Case) -> float | None:
    sampled = case.round.once(newest_sample).get(case.target.key)
    if sampled is None:
        return None
    waited_s = max(0, case.round.now_ms - sampled.oldest_ms) / 1000 if sampled.oldest_ms else 0.0
    # Where not all is known an older one may wait: that makes an alert worse, and never better.
    if sampled.unsettled is None and (sampled.oldest_ms is None or waited_s < case.value):
        return None
    return waited_s


def _publish_failures(case: Case) -> float | None:
    failures = case.round.once(_failed, case.since_ms).get(case.target.subject.namespace, 0)
    return at_least(case, failures, case.round.once(evidence)[FACTS].known)


def _failed(_: Round, since_ms: int) -> Mapping[str, int]:
    rows = FlowSample.objects.filter(_FAILED, bucket_ms__gt=since_ms - BUCKET_MS, subscription="")
    return dict(rows.values_list("topic").annotate(failures=total("failed")).order_by())


def _silence(case: Case) -> float | None:
    """Silence before the watch began is not held against a topic, unless it was held against it already."""
    now = case.round
    if not now.once(evidence)[FACTS].known:
        # Nobody has heard, and not: nobody has spoken.
        return None
    published_ms = now.kept(Pulse).last_ms(case.target.subject.namespace, now.now_ms)
    since_ms = max(published_ms, case.target.created_ms, 0 if case.firing else now.watching_ms)
    return max(0, now.now_ms - since_ms) / 60_000


KINDS = (
    AlertKind(
        name="lag",
        title="Unsettled messages",
        unit="messages",
        unit_of_one="message",
        says="has unsettled",
        help="What a subscription has not settled: waiting, in flight and retrying. Paused ones are not judged.",
        targets=SUBSCRIPTIONS,
        measure=_lag,
        while_paused=False,
        usual=10_000,
        place=20,
        defaults=(
            DefaultRule(
                "A backlog grows",
                10_000,
                "Add consumers or raise the concurrency in the settings of the subscription, or find out on its page"
                " what slowed the handler down.",
                for_s=300,
                clear_below=5_000,
            ),
        ),
    ),
    AlertKind(
        name="oldest",
        title="Age of the oldest unsettled message",
        unit="seconds",
        says="lets a message wait",
        help="How long the longest-waiting message of a subscription has waited. Paused ones are not judged.",
        targets=SUBSCRIPTIONS,
        measure=_oldest,
        while_paused=False,
        usual=300,
        place=10,
        defaults=(
            DefaultRule(
                "Messages wait too long",
                300,
                "Open the subscription: do its consumers live, does its handler hang, is it retrying?",
                for_s=120,
            ),
        ),
    ),
    AlertKind(
        name="publish_failures",
        title="Failed publishes in a time",
        unit="failed publishes",
        unit_of_one="failed publish",
        says="saw",
        help="Messages the store did not take, or not surely, within the window. Refused input does not count.",
        targets=TOPICS,
        measure=_publish_failures,
        windowed=True,
        place=70,
        defaults=(
            DefaultRule(
                "Publishes fail",
                1,
                "Is the store up, and not full? The cluster page says so. Producers must repeat what failed.",
                severity="critical",
                window_s=300,
                clear_s=120,
            ),
        ),
    ),
    AlertKind(
        name="silent_topic",
        title="Silent topic",
        unit="minutes",
        says="has published nothing for",
        help="Minutes since the last publish, or since hbus began to watch: for topics that are never quiet for long.",
        targets=TOPICS,
        measure=_silence,
        usual=60,
        place=90,
        defaults=(
            DefaultRule(
                "A topic fell silent",
                60,
                "Ask its owner and its producers. For topics that may be quiet this long, narrow the rule or switch it"
                " off.",
                severity="info",
                enabled=False,
            ),
        ),
    ),
)
