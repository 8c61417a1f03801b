"""Copies of what was published, beside nsqd until every group is done with it: what an nsqd loses comes from there.

nsqd has a message in its memory alone from when it reads it from its disk until it is finished: killed then, it has
forgotten it. A call to nsqd is copied as it is, in one piece, while nsqd takes it; so a copy costs little. What
became of the messages in it is found out afterwards, by :mod:`~engine.bus.transports.nsq.sweeping`.
"""

from __future__ import annotations

import logging
import struct
from enum import StrEnum

from engine.bus.transports.nsq.http import CallRefused, CallUnderWay
from engine.bus.transports.nsq.names import TopicNames
from engine.bus.transports.nsq.side_store import SideStore
from engine.core.errors import ConfigurationError, Unavailable

_LENGTH = struct.Struct(">i")
_log = logging.getLogger(__name__)


class Keep(StrEnum):
    """From when on there is a copy of a message beside nsqd, until it is settled."""

    FROM_PUBLISH = "from_publish"
    #: What nsqd loses is lost.
    NEVER = "never"

    @classmethod
    def parse(cls, text: str) -> Keep:
        """Raises :class:`ConfigurationError`; nothing said is ``from_publish``."""
        try:
            return cls(text or cls.FROM_PUBLISH)
        except ValueError as error:
            raise ConfigurationError(
                f"keep is {text!r}.", remedy=f"It is one of {', '.join(cls)}.", field="NSQ_KEEP"
            ) from error


class Copies:
    """Of one installation. Thread-safe."""

    def __init__(self, side_store: SideStore, keep: Keep) -> None:
        self._side_store = side_store
        self._keep = keep

    def begun(self, names: TopicNames, call: CallUnderWay, body: bytes, messages: int) -> CopiedCall | CallUnderWay:
        """Copy what was just sent to nsqd, while it takes it."""
        if self._keep is Keep.NEVER:
            return call
        try:
            copy = self._side_store.command("XADD", names.copies, "*", "b", body).decode()
        except Unavailable as error:
            # nsqd has them on its disk: they are published all the same.
            _log.warning("%d messages of %s have no copy beside nsqd: %s", messages, names.nsq, error)
            return call
        return CopiedCall(self, names, call, copy, certain=messages == 1)

    def drop(self, names: TopicNames, copy: str) -> None:
        """What nsqd has refused was not published."""
        try:
            self._side_store.command("XDEL", names.copies, copy)
        except Unavailable as error:
            _log.error("messages of %s that were refused may be delivered: %s", names.nsq, error)


class CopiedCall:
    """A call to nsqd that was sent, and copied."""

    __slots__ = ("_call", "_certain", "_copies", "_copy", "_names")

    def __init__(self, copies: Copies, names: TopicNames, call: CallUnderWay, copy: str, *, certain: bool) -> None:
        self._copies = copies
        self._names = names
        self._call = call
        self._copy = copy
        self._certain = certain

    def answer(self) -> bytes:
        """As :meth:`CallUnderWay.answer`."""
        try:
            return self._call.answer()
        except CallRefused as error:
            if nothing_done(error, self._certain):
                self._copies.drop(self._names, self._copy)
            raise


def nothing_done(refused: CallRefused, alone: bool) -> bool:
    """Whether nsqd took none of a call that it refused, which brought one message ``alone``, or many."""
    # 4xx: before anything was put. Else perhaps some of them were.
    return refused.status < 500 or alone


def packed(bodies: list[bytes]) -> bytes:
    """The body of an ``/mpub`` call: how many there are, and each with its length in front."""
    lengths = map(_LENGTH.pack, map(len, bodies))
    return b"".join([_LENGTH.pack(len(bodies)), *(part for pair in zip(lengths, bodies, strict=True) for part in pair)])


def unpacked(body: bytes) -> list[bytes]:
    """What :func:`packed` has packed; nothing where it has not: whoever reaches the store may have written it."""
    bodies: list[bytes] = []
    at = _LENGTH.size
    for _ in range(_LENGTH.unpack_from(body)[0] if len(body) >= at else 0):
        begin = at + _LENGTH.size
        # A length below zero would lead back.
        if begin > len(body) or (length := _LENGTH.unpack_from(body, at)[0]) < 0:
            return []
        bodies.append(body[begin : begin + length])
        at = begin + length
    return bodies if at == len(body) else []
