"""Which topics are archived, and by whom: page, endpoint and command go through here."""

from __future__ import annotations

from django.db import transaction

from engine.bus import Rereads
from engine.core.errors import BadInput
from hbus_console import checks
from hbus_console.access.permissions import Actor, require
from hbus_console.audit.already import already
from hbus_console.audit.services import record
from hbus_console.pipelines.feature import ARCHIVE_SET
from hbus_console.pipelines.models import ArchivedTopic
from hbus_console.pipelines.spools import begin_spooling, end_spooling, spooled_on
from hbus_console.pipelines.standing_jobs import have_jobs
from hbus_console.topics.lookup import topic as known_topic
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus


def reread_on(topic: Topic) -> str:
    """The transport of it that keeps what was settled, so that it is archived from there; empty: none does. While it
    moves, the one that it leaves comes first: the other is still there afterwards."""
    return next((each for each in reversed(topic.carriers) if isinstance(bus.admin(each), Rereads)), "")


def is_archivable(topic: Topic) -> bool:
    """Whether it can be archived: from its transport, or by way of a spool."""
    return bool(reread_on(topic) or spooled_on(topic))


@transaction.atomic
def archive_topic(actor: Actor, name: str, reason: str) -> ArchivedTopic:
    """Put all that the topic holds, and will hold, into the lake. Makes the jobs that do it,
    roll it up and audit it, where there are none.

    Raises ``Forbidden``, ``UnknownTopic``, ``Conflict`` while what its archive left in a transport is being removed,
    and :class:`BadInput` naming the field.
    """
    require(actor, ARCHIVE_SET, name)
    topic = known_topic(name)
    reason = checks.reason(reason)
    if not is_archivable(topic):
        raise BadInput(
            f"{name} cannot be archived: its transport keeps nothing over a restart.",
            remedy="Move it to one that does, such as redis_stream or nsq.",
            field="topic",
        )
    if topic.team is None:
        raise BadInput(f"{name} has no owner.", remedy="Name one in its settings.", field="topic")
    row, made = ArchivedTopic.objects.get_or_create(topic=topic, defaults={"started_by": actor.name})
    # Also of one that is: what HBUS_TRANSPORT has moved to NSQ has no group there so far.
    begin_spooling(topic)
    if not made:
        # A release that brings another job makes it for who archived before.
        have_jobs(topic.team.name, f"For the archive of {name}.")
        already(topic.subject, "is archived", reason=reason)
        return row
    have_jobs(topic.team.name, f"For the archive of {name}, which {actor.name} asked for.")
    record(actor, "archive.start", topic.subject, reason=reason)
    return row


@transaction.atomic
def stop_archiving(actor: Actor, name: str, reason: str) -> None:
    """Put nothing more of the topic into the lake; what is there stays. Raises as :func:`archive_topic`."""
    require(actor, ARCHIVE_SET, name)
    topic = known_topic(name)
    reason = checks.reason(reason)
    if ArchivedTopic.objects.filter(topic=topic).delete()[0]:
        end_spooling(topic)
        record(actor, "archive.stop", topic.subject, reason=reason)
    else:
        already(topic.subject, "is not archived", reason=reason)
