"""Signing in and out, and one's own password."""

from __future__ import annotations

import math

from django.contrib import auth
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest

from engine.core.error_text import storable
from engine.core.errors import BadInput
from engine.core.subject import Subject
from hbus_console.access import context
from hbus_console.access.permissions import ANONYMOUS, Actor, Forbidden
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.devices import device_of
from hbus_console.accounts.models import User
from hbus_console.accounts.throttle import LoginThrottle, wait_s
from hbus_console.audit.refusal_counts import record_or_count
from hbus_console.audit.services import record

#: Longer input is not a password but an attempt to keep the hasher busy.
LONGEST_PASSWORD = 1_000
#: Stands in the log for a name that no account has: what people type there is now and then their password.
UNKNOWN_ACCOUNT = "(no such account)"


class LoginRefused(BadInput):
    """Wrong name or password, or too many tries; ``wait_s`` is how long the next try must wait."""

    def __init__(self, what: str, *, remedy: str, wait_s: float = 0.0) -> None:
        super().__init__(what, remedy=remedy, field="password")
        self.wait_s = wait_s


def sign_in(request: HttpRequest, username: str, password: str, throttle: LoginThrottle) -> User:
    """Start a session (with a new session key) and audit it; raises :class:`LoginRefused`, which is audited too.

    Whether the account exists cannot be told from the answer, its timing, or the wait.
    """
    # Nobody's name holds what this spells out, and not every database would look for it.
    username = storable(username)
    place = context.current().address, device_of(request, username)
    waiting = throttle.begin(username, *place)
    if waiting:
        raise LoginRefused(
            "Too many wrong passwords for this account, or from your address.",
            remedy=f"Wait {in_words(waiting)}, then try again.",
            wait_s=waiting,
        )
    user = auth.authenticate(request, username=username, password=password[:LONGEST_PASSWORD])
    if not isinstance(user, User):
        failures = throttle.failures(username, *place)
        _audit_failure(username, failures)
        next_wait = wait_s(failures)
        remedy = f"The next try is possible in {in_words(next_wait)}." if next_wait else "Try again."
        raise LoginRefused("The name or the password is wrong.", remedy=remedy, wait_s=next_wait)
    throttle.succeeded(username, *place)
    with transaction.atomic():
        auth.login(request, user)
        record(actor_of(user), "session.login", Subject("user", "", user.username))
    return user


def sign_out(request: HttpRequest) -> None:
    """End the session at hand; nothing happens when there is none."""
    if isinstance(request.user, User):
        with transaction.atomic():
            record(actor_of(request.user), "session.logout", Subject("user", "", request.user.username))
            auth.logout(request)


def change_own_password(actor: Actor, request: HttpRequest, current: str, new: str, throttle: LoginThrottle) -> None:
    """Change the password of the person signed in; every other session of theirs ends. Raises ``BadInput``.

    A token may not do this: who found one must not be able to take the account over.
    """
    user = request.user
    if actor.kind != "user" or not isinstance(user, User) or actor.user_id != user.pk:
        raise Forbidden("A password is changed by its owner, signed in to the console.", remedy="Sign in first.")
    place = context.current().address, device_of(request, user.username)
    waiting = throttle.begin(user.username, *place)
    if waiting:
        raise BadInput(
            "Too many wrong passwords.", remedy=f"Wait {in_words(waiting)}, then try again.", field="current"
        )
    if not user.check_password(current[:LONGEST_PASSWORD]):
        _audit_failure(user.username, throttle.failures(user.username, *place))
        raise BadInput("The current password is wrong.", remedy="Type it again.", field="current")
    throttle.succeeded(user.username, *place)
    if new == current:
        raise BadInput("The new password is the old one.", remedy="Choose another.", field="new")
    check_password(new, user, field="new")
    with transaction.atomic():
        user.set_password(new)
        user.must_change_password = False
        user.save(update_fields=["password", "must_change_password"])
        record(actor, "session.password.change", Subject("user", "", user.username))
        auth.update_session_auth_hash(request, user)


def check_password(password: str, user: User, *, field: str) -> None:
    """``BadInput`` unless the password is good enough for ``user``."""
    if len(password) > LONGEST_PASSWORD:
        raise BadInput("The password is too long.", remedy=f"Take at most {LONGEST_PASSWORD} characters.", field=field)
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise BadInput(
            " ".join(error.messages), remedy="Three unrelated words and a number do well.", field=field
        ) from None


def in_words(seconds: float) -> str:
    """``8 seconds``, ``3 minutes``: rounded up, because too early is refused."""
    if seconds <= 90:
        whole = max(1, math.ceil(seconds))
        return f"{whole} second{'' if whole == 1 else 's'}"
    return f"{math.ceil(seconds / 60)} minutes"


def _audit_failure(username: str, failures: int) -> None:
    known = User.objects.filter(username=username).values_list("username", flat=True).first()
    record_or_count(
        ANONYMOUS,
        "session.login.refused",
        Subject("user", "", known or UNKNOWN_ACCOUNT),
        {"failures": failures, "wait_s": wait_s(failures)},
        by_subject=True,
    )
