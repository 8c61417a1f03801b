from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import BadInput
from engine.core.subject import Subject
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.subjects import Stored, read, stored
from hbus_console.subjects import readable


def subjects() -> st.SearchStrategy[Subject]:
    kinds = st.sampled_from(["topic", "subscription", "message", "user", "alert-rule", "unheard-of"])
    places = st.sampled_from(["", "a.b", "a", "booking"])
    names = st.sampled_from(["", "a.b", "a", "a/b", "a.b/c", "a.b/a.b", "x", "01M7"])
    return st.builds(readable, kinds, places, names)


@given(subjects())
def test_a_subject_is_read_from_its_columns_as_it_was(subject: Subject) -> None:
    assert read(stored(subject)) == subject


@pytest.mark.parametrize(
    ("subject", "columns"),
    [
        (Subject("topic", "a.b"), ("topic", "a.b", "a.b")),
        (Subject("subscription", "a.b", "g"), ("subscription", "a.b/g", "a.b")),
        (Subject("message", "a.b", "01M7"), ("message", "01M7", "a.b")),
        (Subject("alert-rule", "", "Many dead"), ("alert_rule", "Many dead", "")),
        (Subject("user", "", "bob"), ("user", "bob", "")),
        (Subject("job", "close-of-day", "2026-11-21"), ("job", "2026-11-21", "close-of-day")),
    ],
)
def test_the_columns_are_those_of_older_versions(subject: Subject, columns: tuple[str, str, str]) -> None:
    assert stored(subject) == Stored(*columns)


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        (("topic", "booking.*", "booking.*"), "namespace:booking"),
        (("alert_rule", "Many dead", "booking.*"), "alert-rule:booking/Many dead"),
        (("partner room", "L", "a.b"), "partner-room:a.b/L"),
        (("subscription", "a.b/g", ""), "subscription:/a.b/g"),
        (("user", "a\tb\x00", ""), "user:/a?b?"),
        (("", "", ""), "thing:/?"),
        (("7th", "x" * 400, "a b/c"), "th:a_b_c/" + "x" * 300),
    ],
)
def test_whatever_an_older_version_wrote_is_some_subject(columns: tuple[str, str, str], text: str) -> None:
    target_type, target, namespace = columns
    entry = AuditEntry(target_type=target_type, target=target, namespace=namespace)
    assert str(entry.subject) == text
    assert Subject.parse(text) == entry.subject


@given(st.text(max_size=60), st.text(max_size=250), st.text(max_size=400))
def test_what_others_named_is_always_readable(kind: str, namespace: str, name: str) -> None:
    subject = readable(kind, namespace, name)
    assert Subject.parse(str(subject)) == subject


def test_a_name_that_a_subject_can_hold_stays_as_it_is() -> None:
    assert readable("message", "a.b", "ünï:cødé/1") == Subject("message", "a.b", "ünï:cødé/1")
    with pytest.raises(BadInput):
        Subject("message", "a.b", "a\tb")
