"""What called for a person leaves the list once a fact tells that it is over: of its own namespace, told later."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hbus_console.access.permissions import SYSTEM
from hbus_console.evidence.concerns import concerns
from hbus_console.evidence.models import Evidence, Notice
from hbus_console.ui.concern import Look

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

AT = 1_795_000_000_000
Tell = Callable[[str, str], object]


def notice(kind: str, topic: str) -> object:
    return Notice.objects.create(kind=kind, at_ms=AT, topic=topic, subscription="billing", count=3)


def evidence(kind: str, topic: str) -> object:
    """As of an engine without a ledger of its own."""
    return Evidence.objects.create(
        kind=kind, at_ms=AT, subject=f"subscription:{topic}/billing", namespace=topic, fields={"amount": 3}
    )


@pytest.mark.parametrize("tell", [notice, evidence])
def test_it_is_over_in_its_namespace_from_then_on(tell: Tell) -> None:
    tell("retention_held", "a.b")
    tell("retention_held", "a.c")
    assert len(concerns(Look(SYSTEM, AT))) == 2
    tell("retention_free", "a.b")
    (line,) = concerns(Look(SYSTEM, AT))
    assert "a.c" in line.text
    # And when it is so again, that stands there anew.
    tell("retention_held", "a.b")
    assert len(concerns(Look(SYSTEM, AT))) == 2
