"""Slows down guessing: wrong passwords of one account from one address make the next try wait longer and longer."""

from __future__ import annotations

import hashlib

from django.db import transaction
from django.db.models import F

from engine.core.clock import Clock, SystemClock
from hbus_console.accounts.models import LoginFailures

#: So many wrong passwords for one account from one address are free.
FREE = 5
#: So many from one address for whatever accounts: above a shared address's slips, below a list of names to try.
FREE_PER_ADDRESS = 50
#: The first wait; it doubles with every further failure, up to the longest.
FIRST_WAIT_S = 5
LONGEST_WAIT_S = 900
#: After so long without a failure the count starts anew.
FORGET_S = 3600


class LoginThrottle:
    """Counts failures in the database, so that every web process sees the same. Thread-safe."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()

    def begin(self, account: str, address: str) -> float:
        """Count a try as failed before the password is looked at, so that parallel guesses cannot slip through.

        Returns 0 when the try may go on, else the seconds to wait; a try that must wait is not counted.
        """
        now = self._clock.now_ms()
        with transaction.atomic():
            rows = [
                (self._row(_subject(account, address), now), FREE),
                (self._row(_subject("", address), now), FREE_PER_ADDRESS),
            ]
            left_s = max(wait_s(row.failures, free) - (now - row.last_ms) / 1000 for row, free in rows)
            if left_s > 0:
                return left_s
            for row, _ in rows:
                row.failures += 1
                row.last_ms = now
                row.save(update_fields=["failures", "last_ms"])
        return 0.0

    def succeeded(self, account: str, address: str) -> None:
        """Take the try back: forget the account's count, and this one of the address's."""
        with transaction.atomic():
            LoginFailures.objects.filter(pk=_subject(account, address)).delete()
            LoginFailures.objects.filter(pk=_subject("", address), failures__gt=0).update(failures=F("failures") - 1)

    def failures(self, account: str, address: str) -> int:
        """How many failures of the account from the address are counted now."""
        row = LoginFailures.objects.filter(pk=_subject(account, address)).first()
        return row.failures if row else 0

    def forget_old(self) -> int:
        """Remove counts nobody will ask for again; returns how many."""
        removed, _ = LoginFailures.objects.filter(last_ms__lt=self._clock.now_ms() - FORGET_S * 1000).delete()
        return removed

    def _row(self, subject: str, now: int) -> LoginFailures:
        row, _ = LoginFailures.objects.select_for_update().get_or_create(
            subject=subject, defaults={"failures": 0, "last_ms": now}
        )
        if now - row.last_ms > FORGET_S * 1000:
            row.failures = 0
        return row


def wait_s(failures: int, free: int = FREE) -> float:
    """How long after the last of so many failures the next try must wait."""
    if failures < free:
        return 0.0
    return float(min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** min(failures - free, 20)))


def _subject(account: str, address: str) -> str:
    return hashlib.sha256(f"{account.strip().lower()}\n{address}".encode("utf-8", "surrogatepass")).hexdigest()
