"""How many values a text holds is told without reading it."""

from __future__ import annotations

import time

import pytest

from engine.core.json_values import holds_more_than
from engine.core.strict_json import MOST_TYPED, NotJson, read_typed


@pytest.mark.parametrize(
    ("text", "signs"),
    [
        (b"1", 0),
        (b"[]", 1),
        (b"[1,2]", 2),
        (b'{"a":[1,2,{"b":[]}]}', 6),
        (b'["[,,,{{{"]', 1),
        (rb'["\\\"[,,"]', 1),
        (rb'["\\",1]', 2),
        (b'["a,b","c,[d"]', 2),
    ],
)
def test_signs_outside_of_texts_are_counted(text: bytes, signs: int) -> None:
    assert not holds_more_than(signs, text)
    assert signs < 2 or holds_more_than(signs - 1, text)


def test_a_text_is_one_value_however_long_it_is() -> None:
    assert not holds_more_than(10, b'{"a":"' + b"[,{" * 1_000_000 + b'"}')


@pytest.mark.parametrize("piece", [b"[],", b'"",', b"1,", b'{"a":{}},', b'"\\"",'])
def test_what_holds_millions_is_told_at_once(piece: bytes) -> None:
    text = b"[" + piece * (15_000_000 // len(piece)) + b"1]"
    began = time.process_time()
    assert holds_more_than(100_000, text)
    # Reading it takes ten times as long and more, and hundreds of megabytes.
    assert time.process_time() - began < 1


def test_what_is_typed_holds_so_many_values() -> None:
    assert len(read_typed("[" + "1," * (MOST_TYPED - 1) + "1]")) == MOST_TYPED
    with pytest.raises(NotJson, match="more than 100,000 values"):
        read_typed("[" + "1," * MOST_TYPED + "1]")
