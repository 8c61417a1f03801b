"""An error of ours is answered to programs and to people out of one table."""

from __future__ import annotations

import pytest
from django.test import RequestFactory

from engine.core.errors import (
    BadInput,
    ConfigurationError,
    Conflict,
    HbusError,
    NotThere,
    OutcomeUnknown,
    StateLost,
    Unavailable,
)
from hbus_console.access.web import refuse
from hbus_console.api import problems
from hbus_console.outgoing import ForbiddenTarget


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("error", "program", "person"),
    [
        (BadInput("x"), 422, 400),
        (ForbiddenTarget("x"), 422, 400),
        (NotThere("x"), 404, 404),
        (Conflict("x"), 409, 409),
        (Unavailable("x"), 503, 503),
        (OutcomeUnknown("x"), 504, 504),
        (StateLost("x"), 503, 503),
        (ConfigurationError("x"), 503, None),
        (HbusError("x"), 500, None),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, HbusError) else None,
)
def test_each_kind_has_its_status(error: HbusError, program: int, person: int | None) -> None:
    request = RequestFactory().get("/")
    assert problems.describe(error) == (program, error.title)
    if person is None:
        with pytest.raises(type(error)):
            refuse(request, error)
    else:
        assert refuse(request, error).status_code == person
