"""Where nothing needs a person the overview says no more than what was looked at."""

from __future__ import annotations

import time

import pytest
from django.template.loader import render_to_string

from hbus_console.access.permissions import Actor
from hbus_console.overview.concerns import concerns
from hbus_console.traffic.flow import LagNow
from hbus_console.ui.concern import Concern
from tests.hbus_console.overview.test_concerns import look
from tests.hbus_console.ui.conftest import subscription, topic

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


def test_it_is_well_though_thousands_wait_as_long_as_none_has_waited_for_long(admin_actor: Actor) -> None:
    subscription(topic("rate.published"), "loyalty")
    now = time.time_ns() // 1_000_000

    def waited(minutes: float) -> list[Concern]:
        line = LagNow("rate.published", "loyalty", now, 3_204, 0, 0, now - round(minutes * 60_000))
        return concerns(look(admin_actor, now, lag=[line]))

    assert [each.text for each in waited(5.1)] == ["loyalty on rate.published falls behind"]
    # Thousands of deliveries are not settled, and none of them for so long.
    assert waited(4.9) == []
    said = " ".join(render_to_string("overview/concerns.html", {"concerns": waited(4.9)}).split())
    assert "Nothing needs a person" in said
    # What waits in an outbox or in a lane of the delay path is looked at nowhere, nor is what the reader may not see.
    assert "Every topic and subscription that you may see has an owner" in said
    assert "none of these subscriptions has had a message waiting for more than five minutes" in said
    assert "no message has waited" not in said
    assert "settled" not in said
