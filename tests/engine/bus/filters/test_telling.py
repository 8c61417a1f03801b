from __future__ import annotations

import pytest

from engine.bus.filters import compile_filter
from engine.bus.filters.telling import told


def kept(field: str) -> str | None:
    """``guest.name`` and ``vip`` are not to be told, nor what lies in them."""
    if field in ("", "guest"):
        return field
    return next((each for each in ("guest.name", "vip") if f"{field}.".startswith(f"{each}.")), None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('payload.guest.name == "Ana"', "payload.guest.name …"),
        ('"Ana" == payload.guest.name', "payload.guest.name …"),
        ('payload.guest.name in ["Ana", "Rui"]', "payload.guest.name …"),
        ('payload.guest.name startswith "A" and key == "H-1"', 'payload.guest.name … and key == "H-1"'),
        # With the messages that matched, each of these would tell the value.
        ("payload.guest.name == payload.booker", "payload.guest.name …"),
        ("payload.vip", "payload.vip …"),
        ("not exists(payload.vip)", "not payload.vip …"),
        ('(payload.guest.name == "Ana") == true', "payload.guest.name …"),
        ("payload.guest.name == payload.vip", "payload.guest.name … payload.vip …"),
        # A name in a path may be the value of the field that it lies in.
        ('exists(payload.guest.name."Ana")', "payload.guest.name …"),
        ('payload[3] == "Ana"', "payload …"),
        ('payload.guest == "Ana"', "payload.guest …"),
        ('not (payload.vip or payload.n > 3) and (key == "a" or type != "b")',
         'not (payload.vip … or payload.n > 3) and (key == "a" or type != "b")'),
        ("(payload.n > 3) == (not payload.vip)", "payload.vip …"),
        ("payload.vip or (payload.n > 3) == (not true)", "payload.vip … or (payload.n > 3) == (not true)"),
        ('payload.vip or headers.tenant in ["a", 1, null] or exists(payload."odd name"[2])',
         'payload.vip … or headers.tenant in ["a", 1, null] or exists(payload."odd name"[2])'),
    ],
)  # fmt: skip
def test_what_is_asked_about_a_kept_field_is_not_told(text: str, said: str) -> None:
    assert told(text, kept) == said
    compile_filter(text)


def test_what_asks_about_none_is_told_as_it_was_written() -> None:
    text = ' key=="H-1"  and(payload.n>3)'
    assert told(text, kept) == text
