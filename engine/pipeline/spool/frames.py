"""Frames: what was appended to a spool at once, with how long it is and a checksum. Pure.

A frame is there whole or not at all: one that a power cut tore has not the checksum it says. Each begins with a token
of its file's own that no publisher knows, so that nothing in a message can pass for a frame.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Iterable, Sequence
from zlib import crc32

import msgspec

#: How long the token of a file is, bytes.
TOKEN = 8
#: Token, bytes behind the head, number of the first message, when it was appended, how many there are; then a checksum
#: of all that and of what is behind it.
_SAID = struct.Struct(f"<{TOKEN}sQQQI")
_CHECK = struct.Struct("<I")
HEAD = _SAID.size + _CHECK.size
_MESSAGE = struct.Struct("<HI")
#: A file begins with what it is, the life of its spool, its own token, the number that its first message has at least,
#: how many messages lay before it, and when the last of these was appended; then a checksum of all that.
_BEGINNING = struct.Struct(f"<8s16s{TOKEN}sQQQ")
BEGINNING = _BEGINNING.size + _CHECK.size
_WHAT = b"hbusSP01"


class FileBeginning(msgspec.Struct, frozen=True, gc=False):
    """What a file of a spool says of itself."""

    #: Another one once the spool was made anew; 16 hexadecimal digits.
    life: str
    token: bytes
    #: The number that follows the last one given before it; numbers begin with 1.
    first: int
    #: How many messages were ever appended before it: fewer than numbers were given where some were lost.
    stored: int
    #: When the last of them was appended, epoch milliseconds; 0: there was none.
    before_ms: int


class FrameHead(msgspec.Struct, frozen=True, gc=False):
    """What a frame says of itself."""

    #: Bytes behind the head.
    length: int
    #: The number of its first message. Numbers that were passed over are of messages that were lost.
    first: int
    at_ms: int
    count: int
    check: int

    @property
    def last(self) -> int:
        """The number of its last message."""
        return self.first + self.count - 1


class Spooled(msgspec.Struct, frozen=True, gc=False):
    """One message: what the transport called its place, and its bytes."""

    position: str
    body: bytes


def new_beginning(life: str, first: int, stored: int, before_ms: int) -> FileBeginning:
    """Of a new file of the spool of that life, or of a new life where that is empty."""
    return FileBeginning(life or secrets.token_hex(8), secrets.token_bytes(TOKEN), first, stored, before_ms)


def written_beginning(said: FileBeginning) -> bytes:
    raw = _BEGINNING.pack(_WHAT, said.life.encode(), said.token, said.first, said.stored, said.before_ms)
    return raw + _CHECK.pack(crc32(raw))


def read_beginning(raw: bytes) -> FileBeginning | None:
    """``None`` for what is none, or not all of one."""
    if len(raw) < BEGINNING or crc32(raw[: _BEGINNING.size]) != _CHECK.unpack_from(raw, _BEGINNING.size)[0]:
        return None
    what, life, token, first, stored, before_ms = _BEGINNING.unpack_from(raw)
    return FileBeginning(life.decode(), token, first, stored, before_ms) if what == _WHAT else None


def written(token: bytes, first: int, at_ms: int, messages: Sequence[Spooled]) -> bytes:
    """One frame of these messages, as it lies in the file; of none it says how far the numbers have come."""
    parts = []
    for each in messages:
        position = each.position.encode()
        parts += [_MESSAGE.pack(len(position), len(each.body)), position, each.body]
    content = b"".join(parts)
    said = _SAID.pack(token, len(content), first, at_ms, len(messages))
    return b"".join([said, _CHECK.pack(crc32(content, crc32(said))), content])


def read_head(raw: bytes, token: bytes) -> FrameHead | None:
    """``None`` for what is none of that file, or not all of one."""
    if len(raw) < HEAD or raw[:TOKEN] != token:
        return None
    _, length, first, at_ms, count = _SAID.unpack_from(raw)
    return FrameHead(length, first, at_ms, count, _CHECK.unpack_from(raw, _SAID.size)[0])


def is_whole(head: FrameHead, token: bytes, content: bytes) -> bool:
    """Whether that is what was written behind the head."""
    said = _SAID.pack(token, head.length, head.first, head.at_ms, head.count)
    return len(content) == head.length and crc32(content, crc32(said)) == head.check


def messages_in(content: bytes) -> Iterable[Spooled]:
    """What lies behind the head of a frame that is whole."""
    at = 0
    while at < len(content):
        name, size = _MESSAGE.unpack_from(content, at)
        body = at + _MESSAGE.size + name
        yield Spooled(content[at + _MESSAGE.size : body].decode(), content[body : body + size])
        at = body + size
