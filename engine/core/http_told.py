"""What is told of an answer, or of none: by our own words, for whoever answers chooses theirs, and may repeat in them
what it was called with in a spelling that no comparison finds."""

from __future__ import annotations

import re
from http import HTTPStatus

import h11
import httpx

from engine.core.error_text import class_of, text_of
from engine.core.secret_values import NO_SECRETS, SecretValues

#: From here on the parser quotes what it cannot read.
_QUOTED = re.compile(r"[:\"'(].*", re.DOTALL)


def told_status(status: int) -> str:
    """The number with the phrase that the standard has for it: never with that of who answers."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def told_failure(error: httpx.HTTPError, secrets: SecretValues = NO_SECRETS) -> str:
    """Its class and what it says, without what came from the other side."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, h11.RemoteProtocolError):
            return f"{class_of(error)}: {_QUOTED.sub('', str(cause)).strip()}"
        # The client cuts the chain of causes, and leaves what was being handled.
        cause = cause.__cause__ or cause.__context__
    return text_of(error, secrets=secrets)
