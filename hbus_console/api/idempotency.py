"""Idempotency keys: a repeat of a request gets the first answer and has no second effect.

An answer is kept for who could ask for it: nobody is asked for rights when it is given again, so it is given only while
the caller may still do all that they could do then.

Of a request that died, or was answered with a 5xx, nobody knows whether it was done. Its key stays *open*, and the
repeat is done only where it cannot be done twice by that: see :class:`Repeat`.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum
from http import HTTPStatus

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.request import RawPostDataException
from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.request import Request

from engine.core.errors import BadInput, Conflict
from hbus_console.access import context
from hbus_console.access.acts import Role
from hbus_console.access.permissions import Actor, Forbidden, contains, effective
from hbus_console.api.models import LONGEST_ROUTE, IdempotencyRecord

HEADER = "Idempotency-Key"
#: How long a key is remembered.
KEEP = timedelta(hours=24)
#: How long an effect that knows its own repeats must know them, from when it was first done: a repeat may be claimed at
#: the end of :data:`KEEP`, be at work for a while, and be judged by another clock.
KNOWN_FOR = KEEP + timedelta(hours=1)
#: After so long an unanswered first request is taken for dead, and a repeat may run.
ABANDONED_AFTER = timedelta(seconds=60)
#: The status of an open key: of its request nobody knows whether it was done. The body is then the request's id, and
#: after it, a line each, the ids of the tries before it that left something behind.
OPEN = HTTPStatus.GATEWAY_TIMEOUT.value
#: The status of a key that was given up before a request came under it, or after that request had ended without an
#: answer: no answer has it, and no request is carried out under it any more.
GIVEN_UP = 1
#: So begins, while a key is open, what is noted of its first try; the instant follows. An open key has no answer, so
#: the type of its answer has room for it.
_FIRST = "first tried "
#: Keys that one account gives up at most within :data:`KEEP`; each is one row. A person loses few answers in a day.
MOST_GIVEN_UP = 500
_KEY = re.compile(r"[\x21-\x7e]{1,128}")


class Repeat(Enum):
    """What the repeat of a request meets of whose first try nobody knows whether it was done."""

    #: The effect knows its own repeat, for :data:`KEEP` from the first try: it is tried again until then.
    KNOWN_BY_ITS_EFFECT = "known by its effect"
    #: What was done left an entry in the audit log: it is tried again where there is none, or it came to nothing.
    TOLD_BY_THE_AUDIT_LOG = "told by the audit log"
    #: Nothing tells: it is refused.
    TOLD_BY_NOTHING = "told by nothing"


#: Whether an actor's request, by its id, left something behind since then.
Traces = Callable[[str, str, datetime], bool]
_traces: list[Traces] = []
#: Writes down that nobody knows what became of what an actor began in those requests since then.
Unanswered = Callable[[Actor, Sequence[str], datetime], None]
_unanswered: list[Unanswered] = []


def look_for_traces_with(find: Traces) -> None:
    """Have ``find`` asked about requests whose answers were lost. The audit log stands above the API, and tells."""
    if find not in _traces:
        _traces.append(find)


def tell_unanswered_with(tell: Unanswered) -> None:
    """Have ``tell`` called before the repeat of a request whose effect finds out by itself whether it was done."""
    if tell not in _unanswered:
        _unanswered.append(tell)


class IdempotencyKeyReused(Conflict):
    """The key belongs to another request."""


class StillAtWork(Conflict):
    """Another request with the key has not been answered; after :attr:`again_s` seconds it has been, or counts as
    dead."""

    def __init__(self, what: str, begun_at: datetime, now: datetime) -> None:
        self.again_s = max(1, math.ceil((begun_at + ABANDONED_AFTER - now).total_seconds()))
        super().__init__(
            what,
            remedy=f"Repeat in a moment; if whoever carried it out has died, a repeat is taken in {self.again_s} s.",
            field=HEADER,
        )


def claim(
    request: Request | HttpRequest,
    actor: Actor,
    repeat: Callable[[datetime], Repeat] = lambda first_tried: Repeat.TOLD_BY_THE_AUDIT_LOG,
) -> IdempotencyRecord | None:
    """The record of this request's key: fresh (``status == 0``) and ours to fill, or answered before.

    ``None`` without a key. Raises :class:`IdempotencyKeyReused` for the same key with another body,
    :class:`StillAtWork` while the first request is, ``Conflict`` once the key was given up, and where it may have been
    done without an answer (``repeat`` says how that is known of what was first tried then), ``Forbidden`` when it was
    answered and the caller may do less since, ``BadInput`` for a malformed key.
    """
    key = request.headers.get(HEADER, "")
    if not key:
        return None
    _require_key(key)
    route = _route(request.method, request.path)
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
                actor=actor.name,
                route=route,
                key=key,
                request_digest=digest,
                rights=rights,
                response=_request_id(),
            )
    except IntegrityError:
        found = IdempotencyRecord.objects.get(actor=actor.name, route=route, key=key)
    now = datetime.now(UTC)
    if found.created_at < now - KEEP:
        return _taken_over(found, now, digest, rights)
    if found.status == GIVEN_UP:
        raise Conflict(
            "This was given up before it came, so it was not done.", remedy="Send it as a new act.", field=HEADER
        )
    if found.request_digest != digest:
        raise IdempotencyKeyReused(
            f"This {HEADER} was used before with another body.", remedy="Use a new key for a new request.", field=HEADER
        )
    if is_at_work(found):
        raise StillAtWork("The first request with this key is still at work.", found.created_at, now)
    if found.status == 0 or is_open(found):
        by = repeat(_first_tried(found))
        _require_undone(found, by, now)
        since, tries = _first_tried(found), _tries(found)
        # The last try may have decided nothing, and one before it something.
        left = [each for each in tries if any(find(found.actor, each, since) for find in _traces)]
        # What stands in no log may have been done by the first try all the same: the key is not freed by a later one.
        before = left or (tries[-1:] if by is Repeat.KNOWN_BY_ITS_EFFECT else [])
        # A repeat that comes after this one counts from the same first try.
        taken = _taken_over(found, now, digest, rights, tried=f"{_FIRST}{since.isoformat()}", before=before)
        if by is Repeat.KNOWN_BY_ITS_EFFECT:
            context.note_repeat(left)
            for tell in _unanswered:
                tell(actor, left, since)
        return taken
    if not is_for(found, actor):
        raise Forbidden(
            f"{actor.name} may do less than when this was answered ({found.status}); that is not given again.",
            remedy="It is not done a second time either. Look at what it was about, where you still may.",
        )
    return found


def give_up(actor: Actor, path: str, key: str) -> bool:
    """Whether nothing is carried out under this key from now on; not while a request has it, which may come to its end
    however long that takes, or was answered; and not once :data:`MOST_GIVEN_UP` of theirs were.

    Whoever claims the key first has it: this, or the request. It is given up for as long as a key is remembered, which
    is longer than any request is on its way.
    """
    _require_key(key)
    route = _route("POST", path)
    own = IdempotencyRecord.objects.filter(actor=actor.name)
    found = own.filter(route=route, key=key).first()
    if found is None and own.filter(status=GIVEN_UP).count() < MOST_GIVEN_UP:
        try:
            with transaction.atomic():
                IdempotencyRecord.objects.create(actor=actor.name, route=route, key=key, status=GIVEN_UP)
            return True
        except IntegrityError:
            found = own.filter(route=route, key=key).first()
    if found is None or not (is_open(found) or found.status == GIVEN_UP):
        return False
    # Conditional on what was read: a repeat may take over what a dead request left.
    left = IdempotencyRecord.objects.filter(pk=found.pk, created_at=found.created_at, status=found.status)
    return bool(left.update(created_at=datetime.now(UTC), status=GIVEN_UP, response=b"", content_type=""))


def _route(method: str | None, path: str) -> str:
    """What a key is of. Before anything is written: who may only look would fill the database with long ones."""
    route = f"{method} {path}"
    if len(route) > LONGEST_ROUTE:
        raise BadInput(
            f"An address of {len(path):,} characters takes no {HEADER}.",
            remedy=f"Ask without it, or at an address of {LONGEST_ROUTE - 10} characters at most.",
            field=HEADER,
        )
    return route


def _require_key(key: str) -> None:
    if not _KEY.fullmatch(key):
        raise BadInput(
            f"{HEADER} must be 1 to 128 visible ASCII characters.",
            remedy="A UUID or ULID is a good choice.",
            field=HEADER,
        )


def _request_id() -> bytes:
    return context.current().request_id.encode()


def _first_tried(found: IdempotencyRecord) -> datetime:
    said = found.content_type
    return datetime.fromisoformat(said.removeprefix(_FIRST)) if said.startswith(_FIRST) else found.created_at


def _tries(found: IdempotencyRecord) -> list[str]:
    """The ids of its request and of the tries before that, the newest first."""
    return [each for each in bytes(found.response).decode().split("\n") if each]


def _taken_over(
    found: IdempotencyRecord,
    now: datetime,
    digest: str,
    rights: list[list[str]],
    *,
    tried: str = "",
    before: Sequence[str] = (),
) -> IdempotencyRecord:
    own = "\n".join((context.current().request_id, *before)).encode()
    # Conditional on what was read: of several repeats exactly one takes the key over.
    taken = IdempotencyRecord.objects.filter(pk=found.pk, created_at=found.created_at, status=found.status).update(
        created_at=now, request_digest=digest, rights=rights, status=0, response=own, content_type=tried
    )
    if taken:
        # Not read again: the id is what the row is known by as this request's own, and another may have it by now.
        found.created_at, found.request_digest, found.rights = now, digest, rights
        found.status, found.response, found.content_type = 0, own, tried
        return found
    raise StillAtWork("Another request with this key is at work.", now, now)


def _require_undone(found: IdempotencyRecord, repeat: Repeat, now: datetime) -> None:
    """Raise ``Conflict`` when the first request may have been done, and would be done a second time."""
    if repeat is Repeat.KNOWN_BY_ITS_EFFECT:
        # Each repeat has the key remembered for longer; what the first one did is remembered from then.
        if _first_tried(found) >= now - KEEP:
            return
        repeat = Repeat.TOLD_BY_NOTHING
    if repeat is Repeat.TOLD_BY_NOTHING:
        raise Conflict(
            "The first request with this key was not answered, and nobody knows whether it was done.",
            remedy="Look at what it was about. Use a new key to do it all the same.",
            field=HEADER,
        )
    since = _first_tried(found)
    if first := next((each for each in _tries(found) if any(find(found.actor, each, since) for find in _traces)), ""):
        raise Conflict(
            f"The first request with this key was done, or begun, and its answer was lost: it is in the audit log as "
            f"{first}.",
            remedy="Look at what it was about. Use a new key to do it once more.",
            field=HEADER,
        )


def is_open(record: IdempotencyRecord) -> bool:
    """Whether its request ended without anybody knowing whether it was done."""
    return record.status >= HTTPStatus.INTERNAL_SERVER_ERROR


def is_answered(record: IdempotencyRecord) -> bool:
    """Whether its response is an answer. Until then, and while the key is open, it is the request's id."""
    return record.status not in (0, GIVEN_UP) and not is_open(record)


def is_at_work(record: IdempotencyRecord) -> bool:
    """Whether it may still be under way: not answered, and not so old that whoever did it must have died."""
    return not record.status and record.created_at >= datetime.now(UTC) - ABANDONED_AFTER


def is_for(record: IdempotencyRecord, actor: Actor) -> bool:
    """Whether ``actor`` may still do all that they could do when the request was made."""
    held = effective(actor)
    return all(
        any(each.role.rank >= Role(role).rank and contains(each.scope, scope) for each in held)
        for role, scope in record.rights
    )


def answer(record: IdempotencyRecord, status: int, content: bytes, content_type: str) -> None:
    """Keep the first answer. A 5xx, which nobody should get again, leaves the key open; 401, 403 and 429 free it."""
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        leave_open(record)
        return
    if status in (401, 403, 429):
        free(record)
        return
    _own(record).update(status=status, response=content, content_type=content_type)


def free(record: IdempotencyRecord) -> None:
    """Forget the key: certainly nothing was done by this request. It stays open where a try before it may have."""
    if len(_tries(record)) > 1:
        leave_open(record)
    else:
        _own(record).delete()


def leave_open(record: IdempotencyRecord) -> None:
    """Note that its request has ended, and that nobody knows whether it was done."""
    _own(record).update(status=OPEN)


def _own(record: IdempotencyRecord) -> QuerySet[IdempotencyRecord]:
    """The row while it is this request's, as claimed; none once a repeat has it, who took this request for dead."""
    return IdempotencyRecord.objects.filter(pk=record.pk, status=0, response=bytes(record.response))


def expire() -> int:
    """Forget keys older than :data:`KEEP`; returns how many."""
    removed, _ = IdempotencyRecord.objects.filter(created_at__lt=datetime.now(UTC) - KEEP).delete()
    return removed
