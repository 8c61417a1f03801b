"""What the endpoints of schemas take and give."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from hbus_console.api.answers import fields_of, plain
from hbus_console.api.bodies import Body
from hbus_console.schemas.models import SchemaVersion
from hbus_console.schemas.services import SchemaVerdict


class NewSchema(Body):
    """The next version of a topic's JSON Schema (draft 2020-12)."""

    body: Any
    note: str = ""


class SchemaQuestion(Body):
    """A schema that might follow."""

    body: Any


class SchemaOut(msgspec.Struct):
    """One version of a schema."""

    version: int
    uri: str
    body: Any
    note: str
    created_at: datetime
    created_by: str


class BreakOut(msgspec.Struct):
    """One reason why a schema cannot follow. ``judged`` is false where nobody can promise that it could."""

    path: str
    what: str
    judged: bool


class VerdictOut(msgspec.Struct):
    """Whether a schema could be the next version."""

    accepted: bool
    unchanged: bool
    version: int
    mode: str
    breaks: list[BreakOut]


def schema(row: SchemaVersion) -> dict[str, Any]:
    """One version."""
    return plain(SchemaOut(uri=row.uri, **fields_of(row, SchemaOut, "uri")))


def verdict(found: SchemaVerdict) -> dict[str, Any]:
    """Whether it would be taken."""
    breaks = [BreakOut(one.path, str(one), one.judged) for one in found.breaks]
    return plain(VerdictOut(found.accepted, found.unchanged, found.version, found.mode, breaks))
