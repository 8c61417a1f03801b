"""Short ways to say in the OpenAPI document what an endpoint takes and gives."""

from __future__ import annotations

from typing import Any

import msgspec

from hbus_console.accounts.api_shapes import REFUSED
from hbus_console.api.docs import PROBLEM
from hbus_console.api.problems import CONTENT_TYPE
from hbus_console.topics.api.shapes import described

_CONFLICT = {(409, CONTENT_TYPE): PROBLEM}


def takes(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """A JSON body of that kind."""
    return {"application/json": described(kind)}


def answers(kind: type[msgspec.Struct], code: int = 200) -> dict[Any, Any]:
    """That kind, or a refusal."""
    return {(code, "application/json"): described(kind), **REFUSED, **_CONFLICT}
