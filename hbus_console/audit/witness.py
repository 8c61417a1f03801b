"""What the store knows of the audit log: its head, and how far each host's anchor file went.

The third place beside the database and the anchors. Whoever cuts off the log and its anchors alike has to reach the
store too, where neither the database's administrators nor who has the hosts' disks need have a password. It is under
keyed hashes, in a hash named by the audit key: a store that served another installation knows nothing of this one.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import redis
from django.conf import settings

from engine.core.clock import Clock, SystemClock, to_datetime
from engine.core.errors import HbusError
from engine.core.store import open_client
from hbus_console.audit.anchor_file import Anchor, AnchorFile, Tail
from hbus_console.audit.chain import key_for, link
from hbus_console.audit.models import AuditEntry, newest
from hbus_console.wiring import store

#: So long a page waits for the store, in seconds.
PATIENCE_S = 0.5
_HEAD, _ALARM = "head", "alarm"
#: By address: until when (monotonic seconds) the store counts as away.
_away: dict[str, float] = {}


@dataclass(frozen=True)
class Alarm:
    """That a verification found something, and what first."""

    at_ms: int
    what: str

    @property
    def sentence(self) -> str:
        """The same in words, with when it was."""
        when = f"{to_datetime(self.at_ms):%Y-%m-%d %H:%M} UTC"
        return f"On {when} the log did not hold, and nobody has begun the anchors anew since: {self.what}"


@dataclass(frozen=True)
class Witness:
    """What the store knew when it was asked."""

    #: The last head it was told of; ``None``: it was told of none.
    head: Anchor | None
    #: How far the anchor files went, by their names.
    files: Mapping[str, Tail]
    #: What lies there and was not written by hbus.
    forged: tuple[str, ...] = ()
    #: The first that did not hold since a person began the anchors anew; ``None``: it was told of none.
    alarm: Alarm | None = None

    @property
    def forgery(self) -> str:
        """That something lies there which hbus did not write, in words; empty where nothing does."""
        return (
            f"What the store keeps of the log is not what hbus wrote: {', '.join(self.forged)}." if self.forged else ""
        )


def glance(clock: Clock | None = None) -> Witness | None:
    """:func:`read` for a page, which waits :data:`PATIENCE_S` at most: a store that gave no answer counts as away for
    as long, and is not asked.
    """
    now_s = (clock or SystemClock()).monotonic()
    address = str(settings.REDIS_URL)
    if now_s < _away.get(address, 0.0):
        return None
    found = read(_impatient)
    if found is None:
        _away[address] = (clock or SystemClock()).monotonic() + PATIENCE_S
    return found


def read(client: Callable[[], redis.Redis] = store.client) -> Witness | None:
    """Ask the store; ``None`` when there is none or it does not answer."""
    try:
        found: Mapping[bytes, bytes] = client().hgetall(key())  # type: ignore[assignment]
    except (redis.RedisError, OSError, HbusError):
        return None
    head: Anchor | None = None
    files: dict[str, Tail] = {}
    forged: list[str] = []
    alarm: Alarm | None = None
    for name, raw in found.items():
        field = name.decode(errors="replace")
        try:
            body = _opened(field, raw)
            if field == _HEAD:
                head = Anchor(**body)
            elif field == _ALARM:
                alarm = Alarm(**body)
            else:
                files[field] = Tail(**body)
        except (ValueError, KeyError, TypeError, RecursionError):
            forged.append(field[:40])
    return Witness(head, files, tuple(sorted(forged)), alarm)


def renew(known: Witness, file: AnchorFile) -> None:
    """Tell the store of the head and of the end of ``file``, where what it ``known`` before is still so.

    What is no longer so stays, for verification to find. A store that does not answer is told next time.
    """
    if known.forged:
        return
    told: dict[str, str] = {}
    head = _newest()
    if head is not None and head != known.head and (known.head is None or in_log(known.head)):
        told[_HEAD] = _sealed(_HEAD, asdict(head))
    tail = file.tail()
    before = known.files.get(tail.file) if tail else None
    if tail is not None and tail != before and (before is None or file.holds(before)):
        told[tail.file] = _sealed(tail.file, asdict(tail))
    _tell(told)


def raise_alarm(alarm: Alarm) -> None:
    """Tell the store that a verification did not hold: whoever puts the host's files back as they were changes nothing
    about that.
    """
    _tell({_ALARM: _sealed(_ALARM, asdict(alarm))})


def restate(file: AnchorFile) -> None:
    """Tell the store of the head and of ``file`` whatever it knew: a person said that this is the log from now on."""
    head, tail = _newest(), file.tail()
    told = {_HEAD: _sealed(_HEAD, asdict(head))} if head else {}
    if tail is not None:
        told[tail.file] = _sealed(tail.file, asdict(tail))
    try:
        known = read()
        if known is not None and (known.forged or known.alarm):
            store.client().hdel(key(), *known.forged, _ALARM)
    except (redis.RedisError, OSError, HbusError):
        return
    _tell(told)


def in_log(head: Anchor) -> bool:
    """Whether the log has that entry with that hash; the head of an empty log every log has."""
    return head.seq == 0 or AuditEntry.objects.filter(seq=head.seq, hash=head.hash).exists()


def key() -> str:
    """Where it lies in the store."""
    name = link(key_for(settings.AUDIT_KEY, "audit witness name"), "", {})[:16]
    return f"{settings.HBUS_PREFIX}:audit:{name}"


def _impatient() -> redis.Redis:
    return store.once(
        "audit witness",
        lambda: open_client(store.url(), answer_timeout_s=PATIENCE_S, connect_timeout_s=PATIENCE_S),
        lambda made, _: made.close(),
        store.Closing.STORE,
    )


def _newest() -> Anchor | None:
    found = newest().values_list("seq", "hash", "at").first()
    return None if found is None else Anchor(found[0], found[1], int(found[2].timestamp() * 1000))


def _tell(told: dict[str, str]) -> None:
    if not told:
        return
    try:
        store.client().hset(key(), items=[part for pair in told.items() for part in pair])
    except (redis.RedisError, OSError, HbusError):
        return


def _sealed(field: str, body: dict[str, Any]) -> str:
    return json.dumps({"body": body, "mac": _mac(field, body)})


def _opened(field: str, raw: bytes) -> dict[str, Any]:
    found = json.loads(raw)
    body: dict[str, Any] = found["body"]
    if not hmac.compare_digest(str(found["mac"]).encode(), _mac(field, body).encode()):
        raise ValueError(field)
    return body


def _mac(field: str, body: dict[str, Any]) -> str:
    return link(key_for(settings.AUDIT_KEY, "audit witness"), field, body)
