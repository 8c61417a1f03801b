"""The face of the ledger: finding messages, reading their lives, looking into logs, and what needs a person."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import Max, Q, Sum
from django.urls import reverse

from engine.core.clock import Clock, SystemClock
from hbus_console.accounts.permissions import GLOBAL, Actor, visible_scopes
from hbus_console.ledger import flow
from hbus_console.ledger.attention import Sentence
from hbus_console.ledger.browsing import Condition, Scan, peek, scan
from hbus_console.ledger.life import Life, life
from hbus_console.ledger.models import FlowSample, Notice
from hbus_console.ledger.moments import Moment, moments
from hbus_console.ledger.reveal import Revealed, reveal
from hbus_console.ledger.scopes import topic_filter, topic_names
from hbus_console.ledger.search import Found, Query, reach, search
from hbus_console.ui.formats import duration

__all__ = [
    "Condition",
    "Found",
    "Life",
    "Moment",
    "Query",
    "Revealed",
    "Scan",
    "attention",
    "life",
    "moments",
    "peek",
    "reach",
    "reveal",
    "scan",
    "search",
    "timeline",
]

_clock = SystemClock()
_HOUR_MS = 3_600_000
#: Notices older than this need nobody any more.
_FRESH_MS = 24 * _HOUR_MS
#: Without a sample for so long, nobody samples.
_SAMPLES_STALE_MS = 60_000
#: A topic is silent when nothing came for so long although, in the hour before, it was at least this busy.
_SILENT_MS = 15 * 60_000
_BUSY = 60


def timeline(actor: Actor, message_id: str) -> list[Moment]:
    """What happened to one message, in order; raises as :func:`life`."""
    return moments(life(actor, message_id))


def attention(actor: Actor, *, clock: Clock = _clock) -> list[Sentence]:
    """What the evidence says needs a person, as far as ``actor`` may see it."""
    scopes = visible_scopes(actor)
    if not scopes:
        return []
    now_ms = clock.now_ms()
    lag = flow.latest_lag(scopes)
    names = topic_names(scopes)
    wanted = Q() if names is None else Q(topic__in=[*names, ""])
    notices = list(Notice.objects.filter(wanted, at_ms__gte=now_ms - _FRESH_MS).order_by("-at_ms")[:500])
    return [
        *_store(notices),
        *_groups(notices, lag),
        *_sampling(lag, now_ms),
        *_held(notices, lag),
        *(_dropped(now_ms) if GLOBAL in scopes else []),
        *_silent(scopes, now_ms),
    ]


def _store(notices: Sequence[Notice]) -> list[Sentence]:
    newest = next((notice for notice in notices if notice.kind in ("store_lost", "store_back")), None)
    if newest is None or newest.kind == "store_back":
        return []
    return [Sentence("bad", "The store cannot be reached", newest.detail, reverse("cluster:overview"), "Open cluster")]


def _groups(notices: Sequence[Notice], lag: dict[tuple[str, str], flow.LagNow]) -> list[Sentence]:
    sentences, said = [], set()
    for notice in notices:
        pair = (notice.topic, notice.subscription)
        if notice.kind != "group_lost" or pair in said:
            continue
        said.add(pair)
        if pair in lag and lag[pair].at_ms > notice.at_ms:
            # It was made anew: its lag could be read since.
            continue
        href = reverse("topics:subscription", args=pair)
        sentences.append(Sentence("bad", f"{pair[1]} on {pair[0]} is gone from the store", notice.detail, href))
    return sentences


def _sampling(lag: dict[tuple[str, str], flow.LagNow], now_ms: int) -> list[Sentence]:
    newest = max((reading.at_ms for reading in lag.values()), default=now_ms)
    if now_ms - newest <= _SAMPLES_STALE_MS:
        return []
    return [
        Sentence(
            "bad",
            f"Nobody has looked at the subscriptions for {duration((now_ms - newest) * 1000)}",
            "No keeper is at work: evidence, delayed messages and dead letters wait in the store.",
            reverse("cluster:overview"),
            "Open cluster",
        )
    ]


def _held(notices: Sequence[Notice], lag: dict[tuple[str, str], flow.LagNow]) -> list[Sentence]:
    sentences, said = [], set()
    for notice in notices:
        if notice.kind != "retention_held" or notice.topic in said:
            continue
        said.add(notice.topic)
        reading = lag.get((notice.topic, notice.subscription))
        if reading is not None and reading.unsettled == 0:
            continue
        href = reverse("topics:detail", args=[notice.topic])
        sentences.append(Sentence("warn", f"Retention of {notice.topic} is held back", notice.detail, href))
    return sentences


def _dropped(now_ms: int) -> list[Sentence]:
    rows = Notice.objects.filter(kind="facts_dropped", at_ms__gte=now_ms - _FRESH_MS)
    found = rows.aggregate(total=Sum("count"), last=Max("at_ms"))
    if found["last"] is None:
        return []
    detail = rows.order_by("-at_ms").values_list("detail", flat=True).first() or ""
    total = found["total"] or 0
    lost = f"{total:,} facts are missing from the evidence" if total else "Evidence may be missing"
    ago = duration((now_ms - found["last"]) * 1000)
    return [Sentence("warn", lost, f"{detail} Last {ago} ago; messages are not affected.", reverse("cluster:overview"))]


def _silent(scopes: Sequence[str], now_ms: int) -> list[Sentence]:
    since = now_ms - _SILENT_MS
    rows = (
        FlowSample.objects.filter(
            topic_filter(scopes), subscription="", bucket_ms__gte=since - _HOUR_MS, published__gt=0
        )
        .values_list("topic")
        .annotate(total=Sum("published"), last=Max("bucket_ms"))
        .order_by("topic")
    )
    silent = [(topic, last) for topic, total, last in rows if last < since and total >= _BUSY]
    if not silent:
        return []
    last = max(last for _, last in silent)
    names = ", ".join(topic for topic, _ in silent[:3]) + (f" and {len(silent) - 3} more" if len(silent) > 3 else "")
    verb = "has" if len(silent) == 1 else "have"
    href = reverse("topics:detail", args=[silent[0][0]]) if len(silent) == 1 else reverse("topics:list")
    return [Sentence("info", f"{names} {verb} gone silent", f"Nothing for {duration((now_ms - last) * 1000)}.", href)]
