"""Slows down guessing: wrong passwords of one account from one place make the next try wait longer and longer.

A place is an address, or a browser in which the account has signed in (:mod:`~.devices`): that has a count of its own,
so that whoever guesses from the same address holds up nobody who was there before.
"""

from __future__ import annotations

import hashlib

from django.db import transaction
from django.db.models import F

from engine.core.clock import Clock, SystemClock
from hbus_console.accounts.models import LoginFailures
from hbus_console.origins import origin_of

#: So many wrong passwords for one account from one place are free.
FREE = 5
#: The first wait; it doubles with every further failure, up to the longest.
FIRST_WAIT_S = 5
LONGEST_WAIT_S = 900
#: After so long without a failure the count starts anew.
FORGET_S = 3600
#: So many from one address for whatever accounts: above a shared address's slips, below a list of names to try.
FREE_PER_ADDRESS = 50
#: Beyond these one in so many seconds. A rate and no growing wait: others stand behind the same address.
EACH_S = 10


class LoginThrottle:
    """Counts failures in the database, so that every web process sees the same. Thread-safe."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()

    def begin(self, account: str, address: str, device: str = "") -> float:
        """Count a try as failed before the password is looked at, so that parallel guesses cannot slip through.

        ``device`` is the browser, where the account has signed in there; then the address is not asked about. Returns 0
        when the try may go on, else the seconds to wait; a try that must wait is not counted.
        """
        now = self._clock.now_ms()
        with transaction.atomic():
            of_account = self._row(_of_account(account, address, device), now)
            of_address = None if device else self._row(_of_address(address), now)
            left_s = wait_s(of_account.failures) - (now - of_account.last_ms) / 1000
            if of_address is not None:
                left_s = max(left_s, _leak(of_address, now))
            if left_s > 0:
                return left_s
            of_account.last_ms = now
            for row in (of_account, of_address):
                if row is not None:
                    row.failures += 1
                    row.save(update_fields=["failures", "last_ms"])
        return 0.0

    def succeeded(self, account: str, address: str, device: str = "") -> None:
        """Take the try back: forget the account's count, and this one of the address's. Nobody waits for it."""
        with transaction.atomic():
            LoginFailures.objects.filter(pk=_of_account(account, address, device)).delete()
            if not device:
                counted = LoginFailures.objects.filter(pk=_of_address(address), failures__gt=0)
                counted.update(failures=F("failures") - 1)

    def failures(self, account: str, address: str, device: str = "") -> int:
        """How many failures of the account from that place are counted now."""
        row = LoginFailures.objects.filter(pk=_of_account(account, address, device)).first()
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
            row.failures, row.last_ms = 0, now
        return row


def wait_s(failures: int) -> float:
    """How long after the last of so many failures of one account the next try must wait."""
    if failures < FREE:
        return 0.0
    return float(min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** min(failures - FREE, 20)))


def _leak(row: LoginFailures, now: int) -> float:
    """Let go of what the address may fail again by now, counted from ``last_ms``; the seconds until the next."""
    gone = max(0, now - row.last_ms) // (EACH_S * 1000)
    row.failures, row.last_ms = row.failures - gone, row.last_ms + gone * EACH_S * 1000
    if row.failures <= 0:
        row.failures, row.last_ms = 0, now
    if row.failures < FREE_PER_ADDRESS:
        return 0.0
    return EACH_S - (now - row.last_ms) / 1000


def _of_account(account: str, address: str, device: str) -> str:
    return _subject(account, f"device {device}" if device else origin_of(address))


def _of_address(address: str) -> str:
    return _subject("", f"all of {origin_of(address)}")


def _subject(account: str, place: str) -> str:
    return hashlib.sha256(f"{account.strip().lower()}\n{place}".encode("utf-8", "surrogatepass")).hexdigest()
