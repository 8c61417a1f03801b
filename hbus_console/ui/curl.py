"""Every act can be copied as the curl command that does the same through the API."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

from hbus_console.ui.control_characters import json_to_send


@dataclass(frozen=True)
class CurlRequest:
    """A request to our own API. ``path`` starts with a slash; ``body`` is sent as JSON when it is not ``None``."""

    method: str
    path: str
    body: Any = None
    #: Ask for an ``Idempotency-Key``, so that repeating the command cannot repeat the act.
    idempotent: bool = False


def command(request: CurlRequest, base: str) -> str:
    """The command as one pasteable text; the token is read from ``$HBUS_TOKEN``, so it is in no history file."""
    parts = ["curl -sS"]
    if request.method.upper() != "GET":
        parts.append(f"-X {request.method.upper()}")
    parts.append(shlex.quote(base.rstrip("/") + request.path))
    parts.append('-H "Authorization: Bearer $HBUS_TOKEN"')
    if request.idempotent:
        parts.append('-H "Idempotency-Key: $(uuidgen)"')
    if request.body is not None:
        parts.append("-H 'Content-Type: application/json'")
        parts.append(f"-d {shlex.quote(written(request.body))}")
    return " \\\n  ".join(parts)


def written(body: Any) -> str:
    """``body`` as the command sends it."""
    return json_to_send(body, indent=None, default=str)
