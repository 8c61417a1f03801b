"""An audit that somebody asks for: a run of the job that audits, over the topics that they may have audited."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from engine.bus.subjects import topic_subject
from engine.core.errors import BadInput, NotThere
from engine.core.subject import Subject
from hbus_console import checks
from hbus_console.access.permissions import SOMEWHERE, SYSTEM, Actor, allows, require
from hbus_console.audit.services import ToldChange, record_all
from hbus_console.jobs.models import JobRun
from hbus_console.jobs.services.jobs import job
from hbus_console.jobs.services.triggering import Trigger, runs_of_key, trigger
from hbus_console.pipelines.feature import AUDIT_JOB, AUDIT_RUN
from hbus_console.pipelines.models import ArchivedTopic, AskedBusAudit
from hbus_console.pipelines.standing_jobs import have_jobs
from hbus_console.pipelines.the_lake import lake
from hbus_console.teams.models import Team

#: Topics that one may name.
MOST_NAMED = 1_000
#: Topics of one audit of each of which the audit log has an entry.
MOST_AUDITED = 20
#: The longest key, in characters.
MOST_KEY = 128


@dataclass(frozen=True, slots=True)
class WantedAudit:
    """Of these topics; of all that one may have audited, and of jobs and quotas, where none is named; a span as RFC
    3339 says it, either end may be empty. ``key``: under the same one of the same person it is one audit."""

    topics: Sequence[str] = ()
    since: str = ""
    until: str = ""
    reason: str = ""
    key: str = ""


@transaction.atomic
def ask_audit(actor: Actor, wanted: WantedAudit) -> JobRun:
    """Have it made by the job; the run is returned. Raises ``Forbidden``, :class:`NotThere` for a topic that the lake
    has nothing of, and :class:`BadInput` naming the field."""
    topics = _topics(actor, wanted.topics)
    reason = checks.reason(wanted.reason)
    since = checks.instant(wanted.since, "since") if wanted.since else None
    until = checks.instant(wanted.until, "until") if wanted.until else None
    if since is not None and until is not None and since >= until:
        raise BadInput("The span ends before it begins.", remedy="Say a later end, or none.", field="until")
    _have_job()
    # Who names no topic has all that they may have audited by name here.
    said = {"topics": topics, "since": wanted.since, "until": wanted.until, "beside": not wanted.topics}
    key = _own(actor, wanted.key)
    asked = _asked(key, said) or AskedBusAudit.objects.create(asked_by=actor.name, **said)
    # It audits for everybody, and everybody reads of their topics alone: who may ask was asked above. What is asked for
    # is not among the parameters, nor why: whoever sees the job reads these.
    made = trigger(SYSTEM, AUDIT_JOB, Trigger({"asked": asked.pk}, f"{actor.name} asks for an audit", key))
    if made.new:
        AskedBusAudit.objects.filter(pk=asked.pk).update(run=made.run.pk)
        span = {"since": wanted.since, "until": wanted.until, "run": made.run.pk}
        record_all(actor, "bus-audit.run", audits_told(topics, span), reason=reason)
    return made.run


def audits_told(topics: Sequence[str], after: Mapping[str, Any]) -> list[ToldChange]:
    """As the audit log has it: of each of these topics, and nothing of the others; of many, of the job, which others
    see, and so without their names."""
    if not 0 < len(topics) <= MOST_AUDITED:
        return [ToldChange.of(Subject("job", AUDIT_JOB), None, after)]
    return [ToldChange.of(topic_subject(name), None, {"topics": [name], **after}) for name in topics]


def _asked(key: str, said: Mapping[str, Any]) -> AskedBusAudit | None:
    """The same, where it was asked for under the key."""
    if not key:
        return None
    # Of two at once the second sees what the first one made.
    job(AUDIT_JOB, lock=True)
    runs = [run.pk for run in runs_of_key(AUDIT_JOB, key)]
    return AskedBusAudit.objects.filter(run__in=runs, **said).first()


def _own(actor: Actor, key: str) -> str:
    """The key by which the job has it: everybody's are their own, for all of these runs are asked for by hbus itself.
    Nobody learns by a key that another has asked under it."""
    key = checks.text(key, "key", most=MOST_KEY)
    said = "\n".join((actor.kind, actor.name, key))
    return f"audit-{hashlib.sha256(said.encode()).hexdigest()}" if key else ""


def _have_job() -> None:
    """Who deleted it gets it back with the next audit."""
    first = ArchivedTopic.objects.select_related("topic__team").first()
    team = (first and first.topic.team) or Team.objects.order_by("pk").first()
    if team is None:
        raise BadInput("No team could answer for the job that audits.", remedy="Make one.", field="topics")
    have_jobs(team.name, "An audit is asked for.", [AUDIT_JOB])


def _topics(actor: Actor, named: Sequence[str]) -> list[str]:
    if len(named) > MOST_NAMED:
        raise BadInput(
            f"{len(named):,} topics are named.", remedy=f"Name {MOST_NAMED:,} at most, or none: all.", field="topics"
        )
    for name in named:
        require(actor, AUDIT_RUN, checks.name(name, "topics"))
    require(actor, AUDIT_RUN, SOMEWHERE)
    there = lake().state().topics
    for name in named:
        if name not in there:
            raise NotThere(f"The lake has nothing of {name}.", remedy="Is it archived?", field="topics")
    found = sorted(set(named)) or sorted(name for name in there if allows(actor, AUDIT_RUN, name))
    if not found:
        raise BadInput(
            "The lake has nothing that you may have audited.", remedy="Have a topic archived first.", field="topics"
        )
    return found
