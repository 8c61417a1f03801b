"""Envelopes that break careless readers, as bytes that somebody wrote into a store past every check of ours."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from engine.bus.message import LONGEST
from tests.engine.bus.hostile_payloads import BROKEN, FINE, HOSTILE

#: What every readable one has, unless it is what is wrong with it.
PLAIN: Mapping[str, Any] = {"specversion": "1.0", "id": "h", "source": "/hostile", "type": "booking.created"}
DEPTH = 20_000
DEEP = b"[" * DEPTH + b"]" * DEPTH
DEEP_OBJECTS = b'{"a":' * DEPTH + b"1" + b"}" * DEPTH
#: Text that does something where it is not expected: markup, scripts, terminals, spreadsheets, paths, formats.
LIVELY = {
    "markup": "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "an attribute": '"\' onmouseover=alert(1) x="',
    "a template": "{{ 7*7 }}{% debug %}${7*7}%(asctime)s %n",
    "a terminal": "\x1b[2J\x1b]0;owned\x07\x9b31m",
    "a null": "a\x00b",
    "lines": "one\r\ntwo\nSet-Cookie: x=1\u2028three\u0085four",
    "bidi": "\u202egpj.exe\u2066\u200f",
    "a formula": "=cmd|'/c calc'!A1",
    "a path": "../../../../etc/passwd",
    "an address": "//evil.example/?a=b&c=d#e",
    "percent": "%00%0a%2e%2e%2f%ZZ",
    "blanks": " \t ",
    "noncharacters": "\ufffe\uffff\U0010ffff",
    "a mark of order": "\ufeff",
    "an emoji": "\U0001f3e8" * 30,
    "combining": "e" + "\u0301" * 200,
    "a query": "') OR 1=1; DROP TABLE x; --",
}
TEXTS = (
    "id", "source", "type", "time", "subject", "datacontenttype", "dataschema", "partitionkey", "sequence",
    "expirytime", "traceparent", "tracestate", "correlationid", "causationid", "dataclassification", "hbusdue",
    "hbuspriority", "hbusreplay", "hbustarget",
)  # fmt: skip
#: Not these: of another group, or expired, a message is settled without having been handled.
NAMES = [name for name in TEXTS if name not in ("hbustarget", "expirytime")]
INSTANTS = {
    "the year 10000": "10000-01-01T00:00:00Z",
    "the last instant, further west": "9999-12-31T23:59:59-23:59",
    "the first instant, further east": "0001-01-01T00:00:00+23:59",
    "the year 0": "0000-01-01T00:00:00Z",
    "no such day": "2026-02-30T00:00:00Z",
    "no offset": "2026-11-21T08:00:00",
    "many digits": "2026-11-21T08:00:00." + "9" * 5_000 + "Z",
    "other digits": "٢٠٢٦-١١-٢١T08:00:00Z",
    "a leap second": "2016-12-31T23:59:60Z",
    "a week": "2026-W47-6T08:00:00Z",
    "epoch seconds": "1795248001",
    "words": "soon",
}


def envelope(**attributes: Any) -> bytes:
    """The wire form of :data:`PLAIN` with these; characters are escaped, so that lone surrogates can be written."""
    return json.dumps({**PLAIN, **attributes}, separators=(",", ":")).encode()


def unescaped(**attributes: Any) -> bytes:
    """Likewise with every character as it is."""
    return json.dumps({**PLAIN, **attributes}, separators=(",", ":"), ensure_ascii=False).encode()


def raw(member: bytes, **attributes: Any) -> bytes:
    """Likewise with one more member, as it is written."""
    return envelope(**attributes)[:-1] + b"," + member + b"}"


def without(*names: str) -> bytes:
    """:data:`PLAIN` without these."""
    return json.dumps({name: value for name, value in PLAIN.items() if name not in names}).encode()


def _broken() -> dict[str, bytes]:
    """What nobody can read."""
    found = {
        "nothing": b"",
        "a blank": b" ",
        "a null byte": b"\x00",
        "only \xff": b"\xff" * 64,
        "half": envelope()[: len(envelope()) // 2],
        "all but the end": envelope()[:-1],
        "two": envelope() * 2,
        "an array of it": b"[" + envelope() + b"]",
        "a byte order mark": b"\xef\xbb\xbf" + envelope(),
        "UTF-16": envelope().decode().encode("utf-16"),
        "UTF-32": envelope().decode().encode("utf-32-be"),
        "MessagePack": b"\x85\xa2id\xa1h\xa6source\xa2/s",
        "gzip": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff",
        "deep arrays": DEEP,
        "deep objects": DEEP_OBJECTS,
        "only opened": b"[" * DEPTH,
        "only opened objects": b'{"a":' * DEPTH,
        "deep data": raw(b'"data":' + DEEP),
        "a deep extension": raw(b'"foo":' + DEEP),
        "a deep id": raw(b'"id":' + DEEP_OBJECTS),
        "a comment": b"/* x */" + envelope(),
        "NaN": raw(b'"foo":NaN'),
        "a name of \xff": raw(b'"fo\xff":"x"'),
        "a huge name": raw(b'"' + b"k" * 1_000_000 + b'":"x"'),
        "a name in capitals": raw(b'"fooBar":"x"'),
        "an empty name": raw(b'"":"x"'),
        "a reserved name": raw(b'"_extensions":{"a":"b"}'),
        "a float": raw(b'"foo":1.5'),
        "a huge double": raw(b'"foo":1e400'),
        "a huge integer": raw(b'"foo":' + b"9" * 5_000),
        "null for an extension": raw(b'"foo":null'),
        "an object for an extension": raw(b'"foo":{"a":1}'),
        "no base64": envelope(data_base64="###"),
        "torn base64": envelope(data_base64="AAA"),
        "a number for base64": envelope(data_base64=1),
        "specversion 0.3": envelope(specversion="0.3"),
        "specversion a number": envelope(specversion=1.0),
        "another specversion after": raw(b'"specversion":"2.0"'),
    }
    found |= {f"a scalar: {text.decode()}": text for text in (b"null", b"true", b"0", b'"x"', b"[]", b"{}", b"-1e999")}
    for name in ("id", "source", "type", "specversion"):
        found[f"no {name}"] = without(name)
    for name in TEXTS:
        for what, value in (
            ("null", None),
            ("a number", 7),
            ("a list", ["x"]),
            ("an object", {"a": 1}),
            ("true", True),
        ):
            found[f"{name} is {what}"] = envelope(**{name: value})
        found[f"{name} is \\xff"] = raw(f'"{name}":"'.encode() + b'\xff"')
        found[f"{name} is a surrogate"] = envelope(**{name: "x\ud800"})
        found[f"{name} is huge digits"] = raw(f'"{name}":'.encode() + b"9" * 5_000)
    return found


def _odd() -> dict[str, bytes]:
    """What can be read for the most part, and should not be believed."""
    found = {
        "data and bytes": envelope(data=1, data_base64="AAAA"),
        "bytes that claim JSON": envelope(data_base64="/////w==", datacontenttype="application/json"),
        "JSON that claims an image": envelope(data={"a": 1}, datacontenttype="image/png"),
        "many bytes": envelope(data_base64=base64.b64encode(bytes(range(256)) * 4_000).decode()),
        "twice the same name": raw(b'"id":"other","id":"h"'),
        "twice the same data": raw(b'"data":2,"data":3', data=1),
        "many extensions": envelope(**{f"x{number}": "y" * 100 for number in range(2_000)}),
        "our names": envelope(hbusattempts="99", hbusgroup="other", hbusfoo="x", hbuskind="dead", hbusposition="1-1"),
        "a huge member": envelope(data={"k" * 1_000_000: 1}),
        "a huge extension": envelope(foo="x" * 1_000_000),
        "a cause that is itself": envelope(id="self", causationid="self", correlationid="self"),
        "a redrive of nothing": envelope(hbusreplay="redrive", causationid="nobody"),
        "a replay of no kind": envelope(hbusreplay="<b>"),
        "a far due time": envelope(hbusdue="2999-01-01T00:00:00Z"),
        "no such priority": envelope(hbuspriority="urgent"),
        "the wrong priority": envelope(hbuspriority="high"),
        "a trace of zeros": envelope(traceparent="00-" + "0" * 32 + "-" + "0" * 16 + "-00"),
        "no trace": envelope(traceparent="00-zz-yy-xx"),
        "half a trace": envelope(traceparent="00-"),
        "no schema": envelope(dataschema="javascript:alert(1)"),
        "expired": envelope(expirytime="2001-01-01T00:00:00Z"),
        "for another": envelope(hbustarget="other"),
        "for nobody": envelope(hbustarget="\x00"),
    }
    payloads = {**HOSTILE, **FINE, **{name: text for name, text in BROKEN.items() if text}}
    found |= {f"data: {name}": raw(b'"data":' + text) for name, text in payloads.items()}
    for name, text in HOSTILE.items():
        found[f"data with a key: {name}"] = raw(b'"data":' + text, partitionkey=f"of {name}")
    for name in NAMES:
        found[f"{name} is empty"] = envelope(**{name: ""})
        found[f"{name} is enormous"] = envelope(**{name: "x" * 100_000})
        found[f"{name} is as long as may be"] = unescaped(**{name: "ü" * LONGEST.get(name, 4_096)})
        for what, text in LIVELY.items():
            found[f"{name} is {what}"] = unescaped(**{name: text})
    for name in ("time", "expirytime", "hbusdue"):
        found |= {f"{name} is {what}": unescaped(**{name: text}) for what, text in INSTANTS.items()}
    return found


#: All of them, by what is wrong with each.
CORPUS = {**_broken(), **_odd()}
#: What one envelope should not be told apart from another by.
SAME_ID = (envelope(id="twice", data=1), envelope(id="twice", data=2))


def identified(body: bytes, message_id: str) -> bytes:
    """``body`` under an id of its own, where its id is none of its oddities."""
    return body.replace(b'"id":"h"', f'"id":"{message_id}"'.encode(), 1)


_characters = st.one_of(st.text(max_size=12), st.sampled_from([*LIVELY.values(), *INSTANTS.values(), "", "x" * 5_000]))
_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), _characters, st.just(10**4_000), st.just("\ud800")),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_characters, inner, max_size=4)),
    max_leaves=8,
)
_attributes = st.dictionaries(
    st.one_of(
        st.sampled_from([*TEXTS, "specversion", "data", "data_base64", "_extensions"]),
        st.from_regex(r"[a-z0-9]{1,20}", fullmatch=True),
        _characters,
    ),
    st.one_of(_characters, _values),
    max_size=6,
)


@st.composite
def envelopes(draw: st.DrawFn) -> bytes:
    """Near-envelopes: members drawn over those of a plain one, and at times bytes put in, taken out or replaced."""
    members = {**PLAIN, **draw(_attributes)}
    for name in draw(st.sets(st.sampled_from([*PLAIN]), max_size=1)):
        del members[name]
    body = json.dumps(members, ensure_ascii=draw(st.booleans())).encode(errors="surrogatepass")
    for at, length, instead in draw(
        st.lists(st.tuples(st.integers(0, 400), st.integers(0, 8), st.binary(max_size=8)), max_size=2)
    ):
        start = at % (len(body) + 1)
        body = body[:start] + instead + body[start + length :]
    return body
