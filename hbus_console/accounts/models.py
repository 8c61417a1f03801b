"""Who may do what: people, their grants, and the tokens they hand to programs."""

from __future__ import annotations

from collections.abc import Iterator

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.db import models
from django.utils.crypto import salted_hmac

from hbus_console.access.acts import Role


class User(AbstractUser):
    """A person. What they may do is in their grants; Django's own permissions are not used."""

    email = models.EmailField(blank=True)
    #: Somebody else knows the password: nothing but changing it is possible.
    must_change_password = models.BooleanField(default=False)
    #: Part of every session's check value: counting it up ends all sessions of this person for good.
    session_epoch = models.PositiveIntegerField(default=0)

    def get_session_auth_hash(self) -> str:
        return self._session_hash()

    def get_session_auth_fallback_hash(self) -> Iterator[str]:
        for secret in settings.SECRET_KEY_FALLBACKS:
            yield self._session_hash(secret)

    def _session_hash(self, secret: str | bytes | None = None) -> str:
        value = f"{self.password}:{self.session_epoch}"
        return salted_hmac("hbus_console.accounts.session", value, secret=secret, algorithm="sha256").hexdigest()


class Grant(models.Model):
    """One role in one namespace. ``scope`` is ``*`` or a dotted prefix such as ``booking.*``."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="grants")
    role = models.CharField(max_length=16, choices=[(role.value, role.value) for role in Role])
    scope = models.CharField(max_length=200, default="*")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "scope"], name="one_role_per_scope")]


class ApiToken(models.Model):
    """A program's key: shown once, stored as a hash, never stronger than the person who made it."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=100)
    #: The first characters, to recognise a token in a list or a log.
    prefix = models.CharField(max_length=16, unique=True)
    #: SHA-256 of the whole token; the token has 256 bits of chance, so a slow hash would add nothing.
    digest = models.CharField(max_length=64, unique=True)
    role = models.CharField(max_length=16, choices=[(role.value, role.value) for role in Role])
    scope = models.CharField(max_length=200, default="*")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            # The name is how the token acts in the audit log: two living ones must not share it.
            models.UniqueConstraint(
                fields=["user", "name"], condition=models.Q(revoked_at__isnull=True), name="one_living_token_per_name"
            )
        ]


class LoginFailures(models.Model):
    """Wrong passwords for one account from one address; gone after a successful login."""

    #: SHA-256 of account and address: what is typed into the account field is now and then a password.
    subject = models.CharField(max_length=64, primary_key=True)
    failures = models.PositiveIntegerField(default=0)
    last_ms = models.BigIntegerField()
