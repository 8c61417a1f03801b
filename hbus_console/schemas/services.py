"""Schema versions: each one immutable, and each able to follow the one before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import F

from engine.core.errors import BadInput, NotThere
from engine.core.strict_json import NotJson, read_typed
from hbus_console import checks
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import Actor, require
from hbus_console.audit.services import record
from hbus_console.schemas.feature import SCHEMA_EDIT
from hbus_console.schemas.json_schema import Incompatibility, check_schema, compatibility
from hbus_console.schemas.models import SchemaVersion
from hbus_console.topics import catalog, lookup
from hbus_console.topics.models import Topic


@dataclass(frozen=True)
class SchemaVerdict:
    """What would become of a schema if it were added."""

    #: The number it would get, or has when it is unchanged.
    version: int
    mode: str
    unchanged: bool
    breaks: tuple[Incompatibility, ...]

    @property
    def accepted(self) -> bool:
        return not self.breaks


def parse(text: str) -> Any:
    """A schema typed by a person; raises :class:`BadInput` with the line that is no JSON, or with what in it not
    everybody reads."""
    try:
        return read_typed(text)
    except NotJson as error:
        raise BadInput(f"Not JSON: {error}.", remedy="Mend it and try again.", field="body") from error


def would_accept(actor: Actor, topic: str, body: Any) -> SchemaVerdict:
    """Whether ``body`` could be the next version, without changing anything. Needs to see the topic, no more."""
    require(actor, VIEW, topic)
    check_schema(body)
    return _verdict(lookup.topic(topic), body)


@transaction.atomic
def add_schema(actor: Actor, topic: str, body: Any, note: str = "") -> SchemaVersion:
    """Add the next version; publishes are checked against it at once. The same body again adds nothing.

    Raises :class:`BadInput` (field ``body``) listing what would break under the topic's compatibility mode.
    """
    require(actor, SCHEMA_EDIT, topic)
    check_schema(body)
    note = checks.text(note, "note", most=300)
    row = lookup.topic(topic, lock=True)
    verdict = _verdict(row, body)
    if verdict.unchanged:
        return schema(topic, verdict.version)
    if verdict.breaks:
        raise BadInput(
            f"Version {verdict.version} would break {row.compatibility} compatibility: "
            + " ".join(str(one) for one in verdict.breaks[:5])
            + (f" And {len(verdict.breaks) - 5} more." if len(verdict.breaks) > 5 else ""),
            remedy="Keep old fields and make new ones optional, or let a governor loosen the mode.",
            field="body",
        )
    made = _add(actor, row, verdict.version, body, note)
    Topic.objects.filter(pk=row.pk).update(revision=F("revision") + 1)
    return made


def schema(topic: str, number: int) -> SchemaVersion:
    """Raises :class:`NotThere`."""
    found = SchemaVersion.objects.filter(topic__name=topic, version=number).select_related("topic").first()
    if found is None:
        raise NotThere(f"{topic} has no schema version {number}.", remedy="List its versions.", field="version")
    return found


def first_version(actor: Actor, row: Topic, body: Any) -> SchemaVersion:
    """The schema a topic is created with; called in the transaction of its creation."""
    check_schema(body)
    return _add(actor, row, 1, body, "")


def _add(actor: Actor, row: Topic, number: int, body: Any, note: str) -> SchemaVersion:
    made = SchemaVersion.objects.create(topic=row, version=number, body=body, note=note, created_by=actor.name)
    record(
        actor,
        "schema.add",
        row.subject,
        reason=note,
        before={"schema_version": number - 1 or None},
        after={"schema_version": number},
    )
    catalog.changed()
    return made


def _verdict(row: Topic, body: Any) -> SchemaVerdict:
    latest = row.schemas.order_by("-version").first()
    if latest is None:
        return SchemaVerdict(version=1, mode=row.compatibility, unchanged=False, breaks=())
    if latest.body == body:
        return SchemaVerdict(version=latest.version, mode=row.compatibility, unchanged=True, breaks=())
    breaks = compatibility(latest.body, body, row.compatibility)
    return SchemaVerdict(latest.version + 1, row.compatibility, unchanged=False, breaks=tuple(breaks))
