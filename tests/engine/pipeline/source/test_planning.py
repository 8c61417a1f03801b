"""What is to be read, and what is gone, out of where one was and what the store says."""

from __future__ import annotations

import pytest

from engine.bus.rereading import Extent
from engine.pipeline.source.planning import Loss, Portion, Why, cut, plan
from engine.pipeline.source.reached import LogReached

REACHED = LogReached("10-0", 10, "a", 10)


def extent(added: int | None = 30, held: int = 30, life: str = "a", first: str = "1-0") -> Extent:
    return Extent("-", life, "30-0", added, held, first, int(first.partition("-")[0]), 30)


def test_a_first_reader_reads_all_there_is() -> None:
    planned = plan({}, [extent()])
    assert planned.portions == [Portion("-", "", "30-0", 30, 0, 0, 1, 30)]
    assert planned.losses == []
    assert planned.reached == {"-": LogReached("30-0", 30, "a", 30)}


def test_who_comes_again_reads_what_is_new() -> None:
    (portion,) = plan({"-": REACHED}, [extent()]).portions
    assert (portion.after, portion.upto, portion.messages, portion.from_ms) == ("10-0", "30-0", 20, 10)


def test_who_has_read_all_reads_nothing_whatever_was_trimmed() -> None:
    reached = {"-": LogReached("30-0", 30, "a", 30)}
    for held in (30, 5, 0):
        planned = plan(reached, [extent(held=held)])
        assert (planned.portions, planned.losses, planned.reached) == ([], [], reached)


@pytest.mark.parametrize(
    ("held", "lost"),
    [(30, None), (20, None), (15, 5), (1, 19)],
)
def test_what_was_trimmed_before_it_was_read_is_a_loss(held: int, lost: int | None) -> None:
    planned = plan({"-": REACHED}, [extent(held=held, first="16-0")])
    assert [loss.messages for loss in planned.losses] == ([] if lost is None else [lost])
    assert [portion.messages for portion in planned.portions] == [20 - (lost or 0)]


@pytest.mark.parametrize(
    ("life", "added", "held", "before"), [("a", 30, 30, 10), ("a", 30, 15, 15), ("b", 30, 30, 0), ("b", 30, 12, 18)]
)
def test_a_portion_says_how_many_there_were_before_it(life: str, added: int, held: int, before: int) -> None:
    (portion,) = plan({"-": REACHED}, [extent(life=life, added=added, held=held)]).portions
    assert portion.added_before == before
    assert (portion.messages or 0) + before == added


def test_all_of_it_trimmed() -> None:
    planned = plan({"-": REACHED}, [extent(held=0, first="0-0")])
    assert planned.losses == [Loss("-", Why.TRIMMED, "10-0", "0-0", 20)]
    assert planned.portions == []
    assert planned.reached["-"].at == "30-0"


def test_another_life_is_read_from_its_beginning_and_the_rest_of_the_old_one_is_told() -> None:
    planned = plan({"-": REACHED}, [extent(life="b", added=3, held=3)])
    assert planned.losses == [Loss("-", Why.EMPTIED, "10-0", "1-0", None)]
    (portion,) = planned.portions
    assert (portion.after, portion.messages) == ("", 3)


def test_a_store_that_names_no_lives_is_found_out_by_its_counts() -> None:
    planned = plan({"-": LogReached("10-0", 10)}, [extent(life="", added=3, held=3)])
    assert [loss.why for loss in planned.losses] == [Why.EMPTIED]


def test_a_store_that_does_not_count_tells_no_loss_and_no_number() -> None:
    planned = plan({"-": LogReached("10-0", None, "a")}, [extent(added=None, held=3)])
    assert planned.losses == []
    assert [portion.messages for portion in planned.portions] == [None]


def test_an_end_that_was_told_before_bounds_it() -> None:
    upto = {"-": LogReached("20-0", 20, "a", 20)}
    (portion,) = plan({"-": REACHED}, [extent()], upto).portions
    assert (portion.after, portion.upto, portion.messages, portion.until_ms) == ("10-0", "20-0", 10, 20)


@pytest.mark.parametrize(("held", "lost", "left"), [(16, 4, 6), (10, 10, 0), (2, 10, 0)])
def test_retention_may_have_come_into_it_or_beyond(held: int, lost: int, left: int) -> None:
    upto = {"-": LogReached("20-0", 20, "a", 20)}
    planned = plan({"-": REACHED}, [extent(held=held, first="15-0")], upto)
    assert [loss.messages for loss in planned.losses] == [lost]
    assert sum(portion.messages or 0 for portion in planned.portions) == left


@pytest.mark.parametrize("there", [[], [extent(life="b", added=3, held=3)]])
def test_an_end_of_a_life_that_is_over_is_lost_whole(there: list[Extent]) -> None:
    upto = {"-": LogReached("20-0", 20, "a", 20)}
    planned = plan({"-": REACHED}, there, upto)
    assert planned.portions == []
    assert planned.losses == [Loss("-", Why.EMPTIED, "10-0", "", 10)]
    assert planned.reached == upto


def test_a_log_that_is_not_there_any_more_stays_as_it_was_reached() -> None:
    assert plan({"p3": REACHED}, [extent()]).reached["p3"] == REACHED


def test_pieces_follow_each_other_without_gap() -> None:
    portion = Portion("-", "", "30-0", 30, 0, 0, 0, 30)
    pieces = cut(portion, 3, 0, lambda log, ms: f"{ms}-!")
    assert [(each.after, each.upto) for each in pieces] == [("", "10-!"), ("10-!", "20-!"), ("20-!", "30-0")]
    assert {each.messages for each in pieces} == {None}


@pytest.mark.parametrize("until_ms", range(5, 12))
@pytest.mark.parametrize("pieces", range(2, 9))
def test_no_piece_begins_before_the_first_message(until_ms: int, pieces: int) -> None:
    portion = Portion("-", "5-3", f"{until_ms}-9", 30, 0, 0, 0, until_ms)
    edges: list[int] = []

    parts = cut(portion, pieces, 5, lambda log, ms: edges.append(ms) or f"{ms - 1}-!")  # type: ignore[func-returns-value]

    assert all(5 < edge <= until_ms for edge in edges)
    assert edges == sorted(set(edges))
    assert (parts[0].after, parts[-1].upto) == ("5-3", f"{until_ms}-9")
    assert len(parts) == max(1, min(pieces, until_ms - 5))
