"""The keeper's duty for what sign-in leaves behind."""

from __future__ import annotations

from django.contrib.sessions.backends.db import SessionStore

from engine.core.clock import Clock
from hbus_console.accounts.throttle import LoginThrottle


class SignInExpiry:
    """Forgets counted login failures and sessions that nobody can use any more."""

    name = "sign-in-expiry"
    interval_s = 600.0

    def __init__(self, clock: Clock | None = None) -> None:
        self._throttle = LoginThrottle(clock)

    def tick(self) -> None:
        self._throttle.forget_old()
        SessionStore.clear_expired()
