"""Idempotency keys: a repeat of a request gets the first answer and has no second effect.

An answer is kept for who could ask for it: nobody is asked for rights when it is given again, so it is given only while
the caller may still do all that they could do then.
"""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime, timedelta

from django.db import IntegrityError, transaction
from django.http import HttpRequest
from django.http.request import RawPostDataException
from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.request import Request

from engine.core.errors import BadInput, Conflict
from hbus_console.access.acts import Role
from hbus_console.access.permissions import Actor, Forbidden, contains, effective
from hbus_console.api.models import IdempotencyRecord

HEADER = "Idempotency-Key"
#: How long a key is remembered.
KEEP = timedelta(hours=24)
#: After so long an unanswered first request is taken for dead, and a repeat may run.
ABANDONED_AFTER = timedelta(seconds=60)
_KEY = re.compile(r"[\x21-\x7e]{1,128}")


class IdempotencyKeyReused(Conflict):
    """The key belongs to another request."""


def claim(request: Request | HttpRequest, actor: Actor) -> IdempotencyRecord | None:
    """The record of this request's key: fresh (``status == 0``) and ours to fill, or answered before.

    ``None`` without a key. Raises :class:`IdempotencyKeyReused` for the same key with another body, ``Conflict``
    while the first request is still at work, ``Forbidden`` when it was answered and the caller may do less since,
    ``BadInput`` for a malformed key.
    """
    key = request.headers.get(HEADER, "")
    if not key:
        return None
    if not _KEY.fullmatch(key):
        raise BadInput(
            f"{HEADER} must be 1 to 128 visible ASCII characters.",
            remedy="A UUID or ULID is a good choice.",
            field=HEADER,
        )
    route = f"{request.method} {request.path}"
    try:
        body = request.body
    except RawPostDataException:
        # A form, which the check of its origin has read already. No endpoint takes one.
        raise UnsupportedMediaType(request.content_type or "") from None
    rights = [[each.role.value, each.scope] for each in effective(actor)]
    digest = hashlib.sha256(request.get_full_path().encode() + b"\n" + body).hexdigest()
    try:
        with transaction.atomic():
            return IdempotencyRecord.objects.create(
                actor=actor.name, route=route, key=key, request_digest=digest, rights=rights
            )
    except IntegrityError:
        found = IdempotencyRecord.objects.get(actor=actor.name, route=route, key=key)
    now = datetime.now(UTC)
    if found.created_at < now - KEEP or (found.status == 0 and found.created_at < now - ABANDONED_AFTER):
        # Conditional on what was read: of several repeats exactly one takes an abandoned key over.
        taken = IdempotencyRecord.objects.filter(pk=found.pk, created_at=found.created_at).update(
            created_at=now, request_digest=digest, rights=rights, status=0, response=b"", content_type=""
        )
        if taken:
            found.refresh_from_db()
            return found
        raise Conflict("Another request with this key is at work.", remedy="Repeat in a moment.", field=HEADER)
    if found.request_digest != digest:
        raise IdempotencyKeyReused(
            f"This {HEADER} was used before with another body.", remedy="Use a new key for a new request.", field=HEADER
        )
    if found.status == 0:
        raise Conflict("The first request with this key is still at work.", remedy="Repeat in a moment.", field=HEADER)
    if not is_for(found, actor):
        raise Forbidden(
            f"{actor.name} may do less than when this was answered ({found.status}); that is not given again.",
            remedy="It is not done a second time either. Look at what it was about, where you still may.",
        )
    return found


def is_for(record: IdempotencyRecord, actor: Actor) -> bool:
    """Whether ``actor`` may still do all that they could do when the request was made."""
    held = effective(actor)
    return all(
        any(each.role.rank >= Role(role).rank and contains(each.scope, scope) for each in held)
        for role, scope in record.rights
    )


def answer(record: IdempotencyRecord, status: int, content: bytes, content_type: str) -> None:
    """Keep the first answer. Answers that a repeat should not get again (5xx, 401, 403, 429) free the key."""
    if status >= 500 or status in (401, 403, 429):
        record.delete()
        return
    record.status, record.response, record.content_type = status, content, content_type
    record.save(update_fields=["status", "response", "content_type"])


def expire() -> int:
    """Forget keys older than :data:`KEEP`; returns how many."""
    removed, _ = IdempotencyRecord.objects.filter(created_at__lt=datetime.now(UTC) - KEEP).delete()
    return removed
