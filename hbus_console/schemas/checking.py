"""A stored schema as the engine asks it at every publish."""

from __future__ import annotations

import structlog

from engine.bus.catalog import SchemaCheck
from engine.core.errors import BadInput
from hbus_console.schemas.json_schema import CompiledSchema
from hbus_console.schemas.models import SchemaVersion

_log = structlog.get_logger(__name__)


def check_of(row: SchemaVersion) -> SchemaCheck:
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
