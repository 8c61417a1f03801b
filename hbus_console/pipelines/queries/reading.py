"""Queries as their askers see them, each their own, and their results for as long as they may see these."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from datetime import timedelta

import msgspec
from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone

from engine.core.errors import HbusError, NotThere
from engine.core.prepared import prepared
from engine.pipeline.query.spec import QueryAnswer
from hbus_console.access.permissions import SOMEWHERE, Actor, require
from hbus_console.jobs.models import JobRun
from hbus_console.pipelines.feature import QUERY_RUN
from hbus_console.pipelines.models import LakeQuery
from hbus_console.pipelines.queries.planning import digest_of, shown_topics
from hbus_console.pipelines.the_lake import lake


def own(actor: Actor) -> QuerySet[LakeQuery]:
    """Those that ``actor`` asked, the newest first, their results left out; with a token those that were asked with it,
    for its maker may do more."""
    require(actor, QUERY_RUN, SOMEWHERE)
    since = timezone.now() - timedelta(days=settings.HBUS_QUERY_DAYS)
    found = LakeQuery.objects.filter(at__gte=since).defer("answer")
    if actor.token_id is not None:
        found = found.filter(token_id=actor.token_id)
    if actor.user_id is not None:
        return found.filter(user_id=actor.user_id)
    return found.filter(user_id=None, actor=actor.name, actor_kind=actor.kind)


def own_query(actor: Actor, number: int) -> LakeQuery:
    """One of them. Raises :class:`NotThere`."""
    found = own(actor).filter(pk=number).first()
    if found is None:
        raise NotThere(f"You have no query {number}.", remedy="Look at the list of yours.")
    return found


def told_state(query: LakeQuery) -> str:
    """How it stands: of one whose run ended without a word, as the run did."""
    if not query.is_open:
        return str(query.state)
    run = JobRun.objects.filter(pk=query.run).only("state", "ended_us").first() if query.run else None
    if query.run is not None and (run is None or run.ended_us is not None):
        return "cancelled" if run is not None and run.state == "cancelled" else "failed"
    return str(query.state)


def answer_of(actor: Actor, query: LakeQuery) -> QueryAnswer | None:
    """Its result; ``None``: there is none, or ``actor`` may not see what was shown to them then."""
    if query.state != LakeQuery.State.DONE or query.answer is None or not may_still_see(actor, query):
        return None
    return unpacked(query.answer)


def error_of(actor: Actor, query: LakeQuery) -> str:
    """Why it failed. It may quote a value, and is told as a result is; what was refused before anything was read is
    told in any case."""
    if query.error and query.shown and not may_still_see(actor, query):
        return "Why it failed is not shown any more: rights or masks of its topics changed since."
    return str(query.error)


def may_still_see(actor: Actor, query: LakeQuery) -> bool:
    """Whether what is shown of its topics is what was: neither rights nor masks changed since."""
    try:
        return digest_of(shown_topics(actor, lake().state(), query.topics, reveal=query.reveal)) == query.shown
    except HbusError:
        return False


def packed(answer: QueryAnswer) -> bytes:
    """As a row keeps it."""
    return zlib.compress(msgspec.json.encode(answer))


def unpacked(kept: bytes | memoryview) -> QueryAnswer:
    """What :func:`packed` made; a database gives it as any kind of bytes."""
    return msgspec.json.decode(zlib.decompress(bytes(kept)), type=prepared(QueryAnswer))


def names_of(topics: Sequence[str], most: int = 3) -> str:
    """The first of them, and how many more."""
    more = len(topics) - most
    return f"{', '.join(topics[:most])} and {more} more" if more > 0 else ", ".join(topics)
