"""A stored schema as the engine asks it at every publish."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

import structlog

from engine.bus.catalog import SchemaCheck
from engine.core.errors import BadInput
from hbus_console.schemas.json_schema import CompiledSchema, Place
from hbus_console.schemas.models import SchemaVersion

__all__ = ["PayloadCheck", "Place", "check_of"]

_log = structlog.get_logger(__name__)


class PayloadCheck(SchemaCheck, Protocol):
    """The engine's check, and one for payloads of which a part is hidden from whoever asks."""

    def problem_beside(self, payload: object, unknown: Collection[Place]) -> tuple[str, str] | None:
        """``problem()`` by what lies elsewhere than at ``unknown``; what only these could tell is taken for kept."""
        ...


def check_of(row: SchemaVersion) -> PayloadCheck:
    """What payloads are held to by this version, compiled. Logs one that no longer compiles; it refuses everything."""
    try:
        return CompiledSchema(row.body, row.uri)
    except BadInput as error:
        _log.error("a stored schema does not compile", schema=row.uri, error=error.what)
        return _Unusable(row.uri, error.what)


class _Unusable:
    """Stands for a stored schema that no longer compiles: refuses every payload rather than let them pass unseen."""

    def __init__(self, uri: str, why: str) -> None:
        self.uri = uri
        self._why = why

    def problem(self, payload: object) -> tuple[str, str] | None:
        return "data", f"cannot be checked: {self._why}"

    def problem_beside(self, payload: object, unknown: Collection[Place]) -> tuple[str, str] | None:
        return self.problem(payload)
