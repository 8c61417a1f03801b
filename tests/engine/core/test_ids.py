from __future__ import annotations

import os
import threading

import pytest

from engine.core.ids import MANY, READABLE, IdSource, ending, instant_of, new_id, new_ids

ALPHABET = set("0123456789ABCDEFGHJKMNPQRSTVWXYZ")


def test_ids_are_ulids_and_grow_strictly() -> None:
    source = IdSource()
    ids = [source.new(1_790_000_000_000 + n // 5_000) for n in range(20_000)]
    assert ids == sorted(set(ids))
    assert all(len(text) == 26 and set(text) <= ALPHABET for text in ids[:10])


def test_the_first_ten_letters_are_the_time() -> None:
    assert IdSource().new(1_469_918_176_385)[:10] == "01ARYZ6S41"


def test_time_that_runs_back_does_not_run_the_ids_back() -> None:
    source = IdSource()
    first = source.new(2_000)
    second = source.new(1_000)
    assert second > first
    assert second[:10] == first[:10]


def test_the_order_survives_the_end_of_the_short_counter() -> None:
    source = IdSource()
    first = source.new(5)
    source._tail = 0xFFFFE
    ids = [source.new(5) for _ in range(3)]
    assert [first, *ids] == sorted({first, *ids})
    assert [text[22:] for text in ids] == ["ZZZZ", "0000", "0001"]


def test_many_at_once_are_as_many_one_by_one() -> None:
    source = IdSource()
    before = source.new(5)
    made = source.new_many(5, MANY)
    after = source.new(5)
    assert [before, *made, after] == sorted({before, *made, after})
    assert len(made) == MANY
    assert all(len(text) == 26 and set(text) <= ALPHABET for text in made)
    assert {text[:22] for text in made} <= {before[:22], after[:22]}
    assert source.new_many(6, 2)[0][:10] > after[:10]
    assert len(new_ids(1, 3)) == 3


def test_many_that_the_short_counter_has_no_room_for_begin_it_anew() -> None:
    source = IdSource()
    first = source.new(5)
    source._tail = 0xFFFFD
    made = source.new_many(5, 3)
    assert [first, *made] == sorted({first, *made})
    assert [text[22:] for text in made] == ["0000", "0001", "0002"]


def test_threads_never_get_the_same_id() -> None:
    ids: list[str] = []
    threads = [threading.Thread(target=lambda: ids.extend([new_id(1) for _ in range(2_000)])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(ids)) == 8_000


def test_a_forked_child_goes_its_own_way() -> None:
    source = IdSource()
    source.new(1_000)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, source.new(1_000).encode())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(reader, 26).decode()
    os.close(reader)
    os.close(writer)
    assert theirs[:22] != source.new(1_000)[:22]


def test_an_id_tells_when_it_was_made() -> None:
    assert instant_of(IdSource().new(1_790_000_000_123)) == 1_790_000_000_123
    assert instant_of("01a0c3f0-217b-7abc-9def-0123456789ab") == 0x01A0C3F0217B


@pytest.mark.parametrize(
    "text", ["", "m1", "order/7", "0" * 25, "8" + "0" * 25, "0" * 25 + "U", "01a0c3f0-217b-4abc-9def-0123456789ab"]
)
def test_an_id_of_another_make_tells_nothing(text: str) -> None:
    assert instant_of(text) is None


def test_a_stores_key_ends_with_the_text_or_with_a_long_ones_hash() -> None:
    assert ending("booking-7") == ":booking-7"
    assert ending("k" * READABLE) == ":" + "k" * READABLE
    long = ending("k" * (READABLE + 1))
    assert long.startswith("#")
    assert len(long) < READABLE
    assert len({long, ending("k" * (READABLE + 2)), ending(long), ending(f"#{long}")}) == 4
