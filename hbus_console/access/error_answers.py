"""How each of our errors is answered: to a program with its status and title, to a person with a page."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

from engine.core.errors import (
    BadInput,
    ConfigurationError,
    Conflict,
    HbusError,
    NotThere,
    OutcomeUnknown,
    QuotaExceeded,
    StateLost,
    Unavailable,
)
from hbus_console.access.permissions import Forbidden


@dataclass(frozen=True)
class ErrorAnswer:
    """The status of one kind of error. ``heading`` is that of its page; empty: no page is made for it."""

    kind: type[HbusError]
    status: HTTPStatus
    heading: str = ""
    #: Of its page, where that is not the same: browsers and programs are told other things of a form.
    page_status: HTTPStatus | None = None


#: The first kind that fits decides: they are related.
_ANSWERS = (
    ErrorAnswer(Forbidden, HTTPStatus.FORBIDDEN),
    ErrorAnswer(NotThere, HTTPStatus.NOT_FOUND, "Not there"),
    ErrorAnswer(Conflict, HTTPStatus.CONFLICT, "It has moved on"),
    ErrorAnswer(BadInput, HTTPStatus.UNPROCESSABLE_ENTITY, "That does not work", HTTPStatus.BAD_REQUEST),
    ErrorAnswer(QuotaExceeded, HTTPStatus.TOO_MANY_REQUESTS, "Too much at once"),
    ErrorAnswer(OutcomeUnknown, HTTPStatus.GATEWAY_TIMEOUT, "It may have been done"),
    ErrorAnswer(Unavailable, HTTPStatus.SERVICE_UNAVAILABLE, "Not available right now"),
    ErrorAnswer(StateLost, HTTPStatus.SERVICE_UNAVAILABLE, "Not available right now"),
    ErrorAnswer(ConfigurationError, HTTPStatus.SERVICE_UNAVAILABLE),
)
_UNFORESEEN = ErrorAnswer(HbusError, HTTPStatus.INTERNAL_SERVER_ERROR)


def not_kept() -> BadInput:
    """What is told of a value that the database will never take, where nobody has refused it before: such as a NUL in a
    name that is looked for, for PostgreSQL alone takes none."""
    return BadInput(
        "The database cannot hold a value of this request.",
        remedy="Leave out NUL characters, and what is longer or larger than any field.",
    )


def answer_to(error: HbusError) -> ErrorAnswer:
    """How it is answered."""
    return next((one for one in _ANSWERS if isinstance(error, one.kind)), _UNFORESEEN)
