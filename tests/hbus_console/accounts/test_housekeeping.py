from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.sessions.models import Session

from engine.core.clock import ManualClock
from hbus_console.accounts.housekeeping import SignInExpiry
from hbus_console.accounts.models import LoginFailures
from hbus_console.accounts.throttle import LoginThrottle


@pytest.mark.django_db
def test_what_nobody_can_use_any_more_is_forgotten() -> None:
    clock = ManualClock()
    LoginThrottle(clock).begin("anna", "10.0.0.1")
    for key, hours in (("dead", -1), ("alive", 1)):
        Session.objects.create(session_key=key, session_data="", expire_date=datetime.now(UTC) + timedelta(hours=hours))
    SignInExpiry(clock).tick()
    assert LoginFailures.objects.count() == 2
    assert list(Session.objects.values_list("session_key", flat=True)) == ["alive"]
    clock.advance(3601)
    SignInExpiry(clock).tick()
    assert not LoginFailures.objects.exists()
