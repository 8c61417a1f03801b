from __future__ import annotations

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import BadInput
from engine.core.subject import KIND_LIMIT, NAME_LIMIT, NAMESPACE_LIMIT, TEXT_LIMIT, Subject

KINDS = st.from_regex(re.compile(r"[a-z][a-z0-9]{0,9}(-[a-z0-9]{1,9}){0,2}", re.ASCII), fullmatch=True)
PRINTABLE = st.characters(blacklist_categories=("Cc", "Cs", "Zl", "Zp"))
NAMESPACES = st.text(PRINTABLE.filter(lambda c: not c.isspace() and c not in "/*"), max_size=NAMESPACE_LIMIT)
NAMES = st.text(PRINTABLE, max_size=NAME_LIMIT)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("topic:booking.created", ("topic", "booking.created", "")),
        ("subscription:booking.created/billing", ("subscription", "booking.created", "billing")),
        ("job:close-of-day", ("job", "close-of-day", "")),
        ("user:/ada", ("user", "", "ada")),
        ("message:booking.created/a/b:c d", ("message", "booking.created", "a/b:c d")),
        ("alert-rule:urn:x/7", ("alert-rule", "urn:x", "7")),
    ],
)
def test_the_text_form_and_its_parts(text: str, parts: tuple[str, str, str]) -> None:
    subject = Subject.parse(text)
    assert (subject.kind, subject.namespace, subject.name) == parts
    assert subject == Subject(*parts)
    assert str(subject) == text


@given(KINDS, NAMESPACES, NAMES)
def test_every_subject_is_read_back_from_its_text(kind: str, namespace: str, name: str) -> None:
    if not namespace and not name:
        with pytest.raises(BadInput, match="needs a namespace or a name"):
            Subject(kind, namespace, name)
        return
    subject = Subject(kind, namespace, name)
    assert Subject.parse(str(subject)) == subject
    assert len(str(subject)) <= TEXT_LIMIT
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(subject), type=Subject) == subject


@given(st.text() | st.from_regex(r"[a-z]*:[^/]*/?.*"))
def test_any_text_is_a_subject_or_refused_with_field_and_remedy(text: str) -> None:
    refused = None
    try:
        assert str(Subject.parse(text)) == text
    except BadInput as error:
        refused = error
    if refused is not None:
        assert refused.field in {"subject", "kind", "namespace", "name"}
        assert refused.remedy
        assert refused.what.isprintable()


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("", "subject"),
        ("topic", "subject"),
        ("topic:a/", "subject"),
        ("user:/", "subject"),
        ("t:" + "a" * 10_000_000, "subject"),
        (":a", "kind"),
        ("Topic:a", "kind"),
        ("topic\n:a", "kind"),
        ("-topic:a", "kind"),
        ("alert--rule:a", "kind"),
        ("a" * (KIND_LIMIT + 1) + ":a", "kind"),
        ("ключ:a", "kind"),
        ("topic:", "namespace"),
        ("topic:a b", "namespace"),
        ("topic:a\n", "namespace"),
        ("topic:*", "namespace"),
        ("topic:booking.*", "namespace"),
        ("topic:a\u2028", "namespace"),
        ("topic:a\u00a0b", "namespace"),
        ("topic:\ud800", "namespace"),
        ("topic:" + "a" * (NAMESPACE_LIMIT + 1), "namespace"),
        ("subscription:a/b\x00", "name"),
        ("subscription:a/b\x1b[2J", "name"),
        ("subscription:a/" + "b" * (NAME_LIMIT + 1), "name"),
    ],
)
def test_hostile_text_is_refused_naming_the_part_and_the_remedy(text: str, field: str) -> None:
    with pytest.raises(BadInput) as refused:
        Subject.parse(text)
    assert refused.value.field == field
    assert refused.value.remedy
    assert len(str(refused.value)) < 300
    assert str(refused.value).isprintable()


def test_the_longest_of_all_fit() -> None:
    longest = Subject("k" * KIND_LIMIT, "n" * NAMESPACE_LIMIT, "m" * NAME_LIMIT)
    assert len(str(longest)) == TEXT_LIMIT
    assert Subject.parse(str(longest)) == longest


def test_it_is_a_value() -> None:
    one, same, other = Subject("topic", "a"), Subject("topic", "a"), Subject("topic", "a", "b")
    assert len({one, same, other}) == 2
    assert sorted([other, one]) == [one, other]
    with pytest.raises(AttributeError):
        one.name = "b"  # type: ignore[misc]
