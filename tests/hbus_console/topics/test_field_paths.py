"""Whatever a search may ask for, its answer tells nothing of what is masked."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from engine.bus.filters.naming import written
from hbus_console.messages.browsing import Condition
from hbus_console.topics.field_paths import FieldPath
from hbus_console.topics.masking import check_fields, mask
from hbus_console.topics.payloads import MaskingRules, may_search

#: Few names, some of them digits, and some of characters that paths give a meaning, so that both meet often.
_NAMES = st.sampled_from(["a", "b", "0", "1", "a.b", "a b", 'a"[0]', ""])
_WRITTEN = _NAMES.map(written)
_VALUES = st.sampled_from(["x", "y", "xy", 0, 1, None, True])
_PAYLOADS = st.recursive(
    _VALUES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3), max_leaves=8
)
_MASKED = st.lists(st.tuples(_WRITTEN, st.sampled_from(["", "[]"])).map("".join), min_size=1, max_size=3).map(".".join)
_ASKED = st.lists(
    st.tuples(_WRITTEN, st.sampled_from(["", "", "[]", "[0]", "[1]", "[0][1]"])).map("".join), min_size=1, max_size=4
).map(".".join)


@st.composite
def _pairs(draw: st.DrawFn) -> tuple[Any, Any, list[str]]:
    """Two payloads that look the same once masked."""
    fields = check_fields(draw(st.lists(_MASKED, min_size=1, max_size=2)))
    payload = draw(_PAYLOADS)
    other = payload
    for field in fields:
        other = FieldPath.parse(field).replaced(other, draw(_PAYLOADS))
    return payload, other, fields


@settings(max_examples=400, suppress_health_check=[HealthCheck.filter_too_much], deadline=None)
@given(_pairs(), _ASKED, st.sampled_from(["=", "~"]), st.sampled_from(["x", "y", "1", "true", "null", "{", "["]))
@example(
    ({"guests": [{"name": "Anna M"}]}, {"guests": [{"name": "Rui"}]}, ["guests[].name"]), "guests.0.name", "~", "a m"
)
@example(([{"guest": {"name": "Anna M"}}], [{"guest": {"name": "Rui"}}], ["guest.name"]), "0.guest.name", "~", "a m")
@example(({"a": [["x"]]}, {"a": [["y"]]}, ["a"]), "a[0][0]", "=", "x")
def test_no_search_tells_payloads_apart_that_differ_in_masked_values_only(
    pair: tuple[Any, Any, list[str]], path: str, operator: str, wanted: str
) -> None:
    payload, other, fields = pair
    assert mask(payload, fields) == mask(other, fields)
    assume(may_search(path, MaskingRules(tuple(fields), "personal", opaque_hidden=True)))
    condition = Condition.read(f"{path}{operator}{wanted}")
    assert condition.fits(payload) == condition.fits(other)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("a", [1, 2]),
        ("a[]", [1, 2]),
        ("a[1]", [2]),
        ("a[7]", []),
        ("b.c", ["x", "y"]),
        ("b[].c", ["x", "y"]),
        ("b[0].c", ["x"]),
        ("b.0.c", []),
        ("d[0][1]", [4]),
        ("e.0", ["named by a digit"]),
        ("e[0]", []),
        ('f."first name"', ["blank"]),
        ("f.'first name'", ["blank"]),
        ('f."a.b[0]"', ["dots"]),
        ('f."straße"', ["sharp"]),
        ('f."stra\\u00dfe"', ["sharp"]),
        ('f."say \\"x\\""', ["quotes"]),
        ("f.'it\\'s'[1]", [2]),
        ('f."*"', ["star"]),
        ('f.""', ["none"]),
        ("f.a.b", []),
    ],
)
def test_what_a_path_reaches(path: str, found: list[Any]) -> None:
    odd = {"first name": "blank", "a.b[0]": "dots", "straße": "sharp", 'say "x"': "quotes", "it's": [1, 2], "*": "star",
           "": "none"}  # fmt: skip
    payload = {"a": [1, 2], "b": [{"c": "x"}, {"c": "y"}], "d": [[3, 4], [5]], "e": {"0": "named by a digit"}, "f": odd}
    assert list(FieldPath.parse(path).values(payload)) == found
