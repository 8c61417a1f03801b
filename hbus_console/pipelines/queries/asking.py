"""A query that somebody asks for: a run of the job that runs queries, and a row that is its asker's own."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from engine.bus.subjects import topic_subject
from engine.core.errors import BadInput, Conflict
from engine.core.subject import Subject
from engine.pipeline.query.spec import MOST_ROWS, MOST_SECONDS, MOST_SQL, USUAL_ROWS, USUAL_SECONDS
from hbus_console import checks
from hbus_console.access.permissions import SOMEWHERE, SYSTEM, Actor, require
from hbus_console.audit import chain
from hbus_console.audit.services import ToldChange, record, record_all
from hbus_console.jobs.services.triggering import Trigger, cancel_run, trigger
from hbus_console.messages.feature import PAYLOAD_REVEAL
from hbus_console.operations.starters import columns_of
from hbus_console.pipelines.feature import QUERY_JOB, QUERY_RUN
from hbus_console.pipelines.models import ArchivedTopic, LakeQuery
from hbus_console.pipelines.queries.planning import ShownTopic, digest_of, shown_topics
from hbus_console.pipelines.queries.reading import own, own_query, told_state
from hbus_console.pipelines.standing_jobs import have_jobs
from hbus_console.pipelines.the_lake import lake
from hbus_console.teams.models import Team
from hbus_console.topics.models import Topic
from hbus_console.topics.payloads import MaskingRules

#: Queries of one person that wait or run.
MOST_OPEN = 3
#: Topics of one query of each of which the audit log has an entry.
MOST_AUDITED = 20
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(frozen=True, slots=True)
class WantedQuery:
    """Of these topics, of all that one may query where none is named; of these days, UTC, both included, either may
    be empty. ``reveal``: what these topics mask as well, for a ``reason``."""

    sql: str
    topics: Sequence[str] = ()
    from_day: str = ""
    to_day: str = ""
    reveal: bool = False
    reason: str = ""
    rows: int = USUAL_ROWS
    seconds: int = USUAL_SECONDS


def ask_query(actor: Actor, wanted: WantedQuery) -> LakeQuery:
    """Have it run. Raises ``Forbidden``, ``NotThere``, ``Conflict`` where enough of theirs are under way, and
    :class:`BadInput` naming the field."""
    require(actor, QUERY_RUN, SOMEWHERE)
    sql = checks.text(wanted.sql, "sql", most=MOST_SQL, required=True, lines=True)
    rows = checks.whole(wanted.rows, "rows", least=1, most=MOST_ROWS)
    seconds = checks.whole(wanted.seconds, "seconds", least=1, most=MOST_SECONDS)
    from_day, to_day = _day(wanted.from_day, "from"), _day(wanted.to_day, "to")
    if from_day and to_day and from_day > to_day:
        raise BadInput("The span ends before it begins.", remedy="Say a later end, or none.", field="to")
    reason = checks.reason(wanted.reason, required=wanted.reveal)
    topics = shown_topics(actor, lake().state(), wanted.topics, reveal=wanted.reveal)
    forget_old_queries()
    if sum(told_state(each) in ("waiting", "running") for each in own(actor).filter(answer=None)[:50]) >= MOST_OPEN:
        raise Conflict(f"{MOST_OPEN} of your queries are under way.", remedy="Wait for one, or cancel it.")
    with transaction.atomic():
        _have_job()
        made = LakeQuery.objects.create(
            **columns_of(actor),
            sql=sql,
            topics=[topic.name for topic in topics],
            from_day=from_day,
            to_day=to_day,
            reveal=wanted.reveal,
            planned=digest_of(topics),
            most_rows=rows,
            most_seconds=seconds,
        )
        _record(actor, made, topics, reason)
        # What they may read was asked above, and is asked again when it is run.
        asked = trigger(SYSTEM, QUERY_JOB, Trigger({"query": made.pk}, f"{actor.name} queries the archive"))
        made.run = asked.run.pk
        made.save(update_fields=["run"])
    return made


def cancel_query(actor: Actor, number: int) -> LakeQuery:
    """End one's own; of one that is over nothing is changed. Raises ``NotThere``."""
    found = own_query(actor, number)
    if found.is_open and found.run is not None:
        cancel_run(SYSTEM, QUERY_JOB, found.run, f"{actor.name} cancelled it")
    return found


def forget_old_queries() -> None:
    """What is older than ``HBUS_QUERY_DAYS`` goes, result and all."""
    LakeQuery.objects.filter(at__lt=timezone.now() - timedelta(days=settings.HBUS_QUERY_DAYS)).delete()


def told_of(query: LakeQuery, after: Mapping[str, Any]) -> list[ToldChange]:
    """As the audit log has it: of each of its topics, so that who governs one finds it there, and nothing of the
    others; of many topics, of the job, which others see: without their names, and how many rows they have."""
    if len(query.topics) > MOST_AUDITED:
        told = {name: value for name, value in after.items() if name != "rows"}
        return [ToldChange.of(Subject("job", QUERY_JOB), None, told)]
    return [ToldChange.of(topic_subject(name), None, after) for name in query.topics]


def mark_of(query: LakeQuery) -> str:
    """What proves later what was asked, and tells nobody: a guess at a masked value may stand in it, so the hash is
    keyed, and no two queries have the same one, whatever they ask."""
    key = chain.key_for(settings.AUDIT_KEY, "a query of the archive")
    return hmac.digest(key.encode(), f"{query.pk}:{query.sql}".encode(), "sha256").hex()


def _record(actor: Actor, query: LakeQuery, topics: Sequence[ShownTopic], reason: str) -> None:
    after = {"query": query.pk, "reveal": query.reveal, "sql_mark": mark_of(query)}
    record_all(actor, "archive.query", told_of(query, after), reason=reason)
    known = Topic.objects.in_bulk([topic.name for topic in topics if topic.revealed], field_name="name")
    for topic in topics:
        if topic.revealed:
            rules = MaskingRules.of(known.get(topic.name))
            shown = {"fields": list(rules.masked_fields) or ["*"], "classification": rules.classification}
            record(
                actor,
                PAYLOAD_REVEAL.name,
                topic_subject(topic.name),
                reason=reason,
                after={**shown, "query": query.pk},
            )


def _day(said: str, field: str) -> str:
    text = said.strip()
    try:
        if text and not (_DAY.fullmatch(text) and date.fromisoformat(text)):
            raise ValueError
    except ValueError:
        raise BadInput(f"{said[:20]!r} is no day.", remedy="Write it as 2026-11-28.", field=field) from None
    return text


def _have_job() -> None:
    """Who deleted it gets it back with the next query."""
    first = ArchivedTopic.objects.select_related("topic__team").first()
    team = (first and first.topic.team) or Team.objects.order_by("pk").first()
    if team is None:
        raise BadInput("No team could answer for the job that runs queries.", remedy="Make one.", field="topics")
    have_jobs(team.name, "A query is asked for.", [QUERY_JOB])
