"""Browsers in which an account has signed in: a cookie that nobody can make, and that opens nothing.

With it a try counts for this browser alone (:mod:`~.throttle`), so that nobody is locked out by who guesses from the
same address. See OWASP, *Slow Down Online Guessing Attacks with Device Cookies*.
"""

from __future__ import annotations

import secrets

from django.conf import settings
from django.core import signing
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare, salted_hmac

from hbus_console.accounts.models import User

#: How long after the last signing in a browser is known.
KEEP_S = 180 * 24 * 3600
#: Accounts that one browser is known to; beyond these the first are forgotten.
MOST_ACCOUNTS = 8
_SALT = "hbus_console.accounts.devices"


def device_of(request: HttpRequest, username: str) -> str:
    """The browser's id, where ``username`` has signed in there with the password that they have now; else empty."""
    device, marks = _read(request)
    if not marks:
        return ""
    user = User.objects.filter(username=username).first()
    if user is None:
        return ""
    own = _mark(device, user)
    return device if any(constant_time_compare(own, each) for each in marks) else ""


def remember_device(request: HttpRequest, response: HttpResponse, user: User) -> None:
    """Have the browser known to ``user``, who has just shown their password, until that is another."""
    device, marks = _read(request)
    device = device or secrets.token_hex(16)
    own = _mark(device, user)
    kept = [*(each for each in marks if each != own), own][-MOST_ACCOUNTS:]
    response.set_cookie(
        settings.DEVICE_COOKIE_NAME,
        signing.dumps([device, kept], salt=_SALT),
        max_age=KEEP_S,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def _read(request: HttpRequest) -> tuple[str, list[str]]:
    try:
        device, marks = signing.loads(request.COOKIES.get(settings.DEVICE_COOKIE_NAME, ""), salt=_SALT, max_age=KEEP_S)
    except signing.BadSignature:
        return "", []
    return device, marks


def _mark(device: str, user: User) -> str:
    # With the password in it: who knew an old one has no browser that is known, however many they made.
    return salted_hmac(_SALT, f"{device}:{user.pk}:{user.get_session_auth_hash()}", algorithm="sha256").hexdigest()[:32]
