"""Payloads that break careless readers, and messages that carry them past every check, as a foreign writer's would."""

from __future__ import annotations

import msgspec

from engine.bus.message import Message

#: Never shown where a topic hides something.
SECRET = "Ana Lima"
#: What is not JSON that everybody reads, though an envelope with it can be read.
HOSTILE = {
    "no UTF-8": b'{"guest":{"name":"Ana Lima\xff\xfe"}}',
    "a name that is no UTF-8": b'{"Ana Lima\xff":1}',
    "UTF-8 of a surrogate": b'{"n":"Ana Lima\xed\xa0\x80"}',
    "overlong UTF-8": b'"Ana Lima\xc0\x80"',
    "a lone surrogate": b'{"guest":"Ana Lima \\ud800"}',
    "a name with a lone surrogate": b'{"Ana Lima \\udc00":1}',
    "surrogates the wrong way round": b'"Ana Lima \\udc00\\ud800"',
    "too many digits": b'{"guest":"Ana Lima","n":' + b"9" * 4_301 + b"}",
    "beyond a double": b'{"guest":"Ana Lima","n":1e999}',
    "below a double": b'["Ana Lima",-1e999]',
    "a huge exponent": b'["Ana Lima",1E99999999999999999999]',
    "a long number with a fraction": b'["Ana Lima",' + b"1" * 400 + b".5]",
    "deep": b"[" * 500 + b'"Ana Lima"' + b"]" * 500,
    "an unknown escape": b'"Ana Lima \\x"',
}
#: Odd, but read alike by everybody here.
FINE = {
    "minus zero": b'{"n":-0}',
    "minus zero as a double": b'{"n":-0.0}',
    "twice the same name": b'{"n":1,"n":2}',
    "a tiny exponent": b'{"n":1e-999}',
    "as many digits as may be": b'{"n":' + b"9" * 4_300 + b"}",
    "a long fraction": b'{"n":0.' + b"1" * 5_000 + b"}",
    "an escaped null": b'{"n":"\\u0000"}',
    "a pair of surrogates": b'{"n":"\\ud83d\\ude00"}',
    "null": b"null",
}
#: What not even an envelope may hold.
BROKEN = {
    "NaN": b"NaN",
    "Infinity": b"-Infinity",
    "a byte order mark": b"\xef\xbb\xbf1",
    "nothing": b"",
    "a zero ahead": b"01",
    "a raw control character": b'"\x00"',
    "torn": b'{"a":',
    "two values": b"1,2",
}


def hostile_message(message_id: str, data: bytes) -> Message:
    """A message whose JSON payload is ``data``, unchecked."""
    return Message(id=message_id, source="/s", type="t", correlationid="c", data=msgspec.Raw(data))
