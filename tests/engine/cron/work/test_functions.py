"""A function is called with parameters that fit its types, and says how it ended."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from datetime import date
from typing import Any

import pytest

from engine.core.errors import ConfigurationError, NotThere
from engine.core.secret_values import SecretValues
from engine.cron.work.call import SUMMARY_LIMIT, Hopeless, RunContext
from engine.cron.work.functions import find_function, forget_functions, job_function, job_functions
from tests.engine.cron.work.conftest import Given


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    before = {each.name for each in job_functions()}
    yield
    forget_functions(*({each.name for each in job_functions()} - before))


def closes(context: RunContext, hotel: str, day: date, rooms: int = 1) -> dict[str, Any]:
    """Close one day of a hotel.

    More of it.
    """
    print(f"closing {hotel}")
    return {"hotel": hotel, "day": day, "rooms": rooms, "run": context.call.run}


def test_it_is_given_its_parameters_in_their_types(given: Given) -> None:
    job_function("hotel.close")(closes)
    context = given(hotel="HB-1", day="2026-11-22")
    outcome = find_function("hotel.close").run(context)
    assert outcome.done
    assert outcome.summary == '{"hotel": "HB-1", "day": "2026-11-22", "rooms": 1, "run": 1}'
    assert context.log.read() == "closing HB-1\n"


def test_its_schema_follows_from_its_types() -> None:
    job_function("hotel.close")(closes)
    (known,) = [each for each in job_functions() if each.name == "hotel.close"]
    assert known.words == "Close one day of a hotel."
    assert known.schema["required"] == ["hotel", "day"]
    assert known.schema["properties"]["rooms"] == {"type": "integer", "default": 1}
    assert known.schema["properties"]["day"] == {"type": "string", "format": "date"}
    assert known.schema["additionalProperties"] is False


@pytest.mark.parametrize("parameters", [{}, {"hotel": 1, "day": "2026-11-22"}, {"hotel": "H", "day": "x"}])
def test_parameters_that_do_not_fit_are_not_tried_again(given: Given, parameters: dict[str, Any]) -> None:
    job_function("hotel.close")(closes)
    outcome = find_function("hotel.close").run(given(**parameters))
    assert (outcome.done, outcome.again) == (False, False)
    assert "its parameters do not fit hotel.close" in outcome.reason


def fails() -> None:
    raise LookupError("no such hotel")


def gives_up() -> None:
    raise Hopeless("the month is closed")


def is_stopped(context: RunContext) -> None:
    context.stop("somebody cancelled it")
    context.raise_if_stopped()


@pytest.mark.parametrize(
    ("function", "reason", "again"),
    [
        (fails, "LookupError: no such hotel", True),
        (gives_up, "the month is closed", False),
        (is_stopped, "somebody cancelled it", True),
    ],
)
def test_it_says_how_it_failed(given: Given, function: Callable[..., None], reason: str, again: bool) -> None:
    job_function("it")(function)
    outcome = find_function("it").run(given())
    assert (outcome.done, outcome.reason, outcome.again) == (False, reason, again)


def test_the_trace_of_an_error_is_in_the_log(given: Given) -> None:
    job_function("it")(fails)
    context = given()
    find_function("it").run(context)
    assert 'raise LookupError("no such hotel")' in context.log.read(last=True)


def untyped(hotel) -> None:  # type: ignore[no-untyped-def]
    ...


def of_many(*hotels: str) -> None: ...


def of_no_json(hotel: Callable[[], None]) -> None: ...


@pytest.mark.parametrize("function", [untyped, of_many, of_no_json])
def test_what_nobody_could_call_is_refused_when_it_is_registered(function: Callable[..., None]) -> None:
    with pytest.raises(ConfigurationError) as refused:
        job_function("it")(function)
    assert refused.value.remedy


def test_a_name_is_one_functions() -> None:
    job_function("it")(fails)
    job_function("it")(fails)
    with pytest.raises(ConfigurationError, match="Two functions are called it"):
        job_function("it")(gives_up)
    with pytest.raises(NotThere):
        find_function("other")


def leaves() -> None:
    raise SystemExit(3)


def test_one_that_leaves_python_has_failed(given: Given) -> None:
    job_function("it")(leaves)
    outcome = find_function("it").run(given())
    assert (outcome.done, outcome.reason) == (False, "it left by sys.exit(3)")


def returns_what_json_cannot_say() -> dict[tuple[int, int], int]:
    return {(1, 2): 3}


def returns_a_secret() -> str:
    return "Bearer abcdefgh12345678 \ud800"


def returns_what_no_database_takes() -> str:
    return "ok a\0b"


class Wordless:
    def __str__(self) -> str:
        raise LookupError("no words")


def returns_what_has_no_text() -> list[Wordless]:
    return [Wordless()]


def returns_much() -> str:
    return "r" * 50_000_000


def returns_a_secret_where_it_is_cut() -> str:
    return f"{'r ' * (SUMMARY_LIMIT // 2 - 15)}hbus_0123456789_{'s' * 40}{'r ' * SUMMARY_LIMIT}"


def test_of_what_is_long_no_more_is_looked_through_than_may_be_kept(given: Given) -> None:
    job_function("it")(returns_much)
    began = time.process_time()
    outcome = find_function("it").run(given())
    assert outcome.summary == f"{'r' * (SUMMARY_LIMIT - 1)}…"
    # All of it would take more than a minute.
    assert time.process_time() - began < 5


def test_a_secret_that_the_cut_goes_through_is_none_the_less_a_secret(given: Given) -> None:
    job_function("it")(returns_a_secret_where_it_is_cut)
    summary = find_function("it").run(given()).summary
    assert len(summary) == SUMMARY_LIMIT
    assert "ss" not in summary


@pytest.mark.parametrize(
    ("function", "summary"),
    [
        (returns_what_json_cannot_say, "a dict that JSON cannot say"),
        (returns_a_secret, "Bearer [redacted] \\ud800"),
        (returns_what_no_database_takes, "ok a\\x00b"),
        (returns_what_has_no_text, "a list that JSON cannot say"),
    ],
)
def test_whatever_it_returns_the_work_is_done(given: Given, function: Callable[[], object], summary: str) -> None:
    job_function("it")(function)
    outcome = find_function("it").run(given())
    assert (outcome.done, outcome.summary) == (True, summary)


def test_half_of_a_secret_does_not_come_into_sight_where_others_are_taken_out_before_it(given: Given) -> None:
    pin = "the-secret-" + "s" * 1_000
    half = 100

    def says_it_again_and_again() -> str:
        return (" " * ((SUMMARY_LIMIT * 10 - half) % (len(pin) + 1))) + (pin + " ") * 50

    job_function("it")(says_it_again_and_again)
    context = given()
    context.log.secrets = SecretValues([pin])
    summary = find_function("it").run(context).summary
    assert len(summary) < SUMMARY_LIMIT
    assert "ss" not in summary


async def is_awaited() -> None: ...


def yields() -> Iterator[int]:
    yield 1


def of_a_wrong_default(rooms: int = "many") -> None:  # type: ignore[assignment]
    ...


def of_an_unknown_type(hotel: "Hotel") -> None:  # type: ignore[name-defined]  # noqa: F821, UP037
    ...


@pytest.mark.parametrize("function", [is_awaited, yields, of_a_wrong_default, of_an_unknown_type])
def test_what_would_not_do_its_work_is_refused_too(function: Callable[..., object]) -> None:
    with pytest.raises(ConfigurationError) as refused:
        job_function("it")(function)
    assert refused.value.remedy


def _raises(error: type[Exception]) -> Callable[[str], Any]:
    def fails(pin: str) -> None:
        raise error(f"no such pin {pin}")

    return fails


@pytest.mark.parametrize(
    ("says", "shown"),
    [
        (lambda pin: {"got": pin}, '{"got": "[redacted]"}'),
        (lambda pin: "x" * (SUMMARY_LIMIT - 4) + pin, "x" * (SUMMARY_LIMIT - 4) + "[re…"),
        (_raises(ValueError), "ValueError: no such pin [redacted]"),
        (_raises(Hopeless), "no such pin [redacted]"),
        (sys.exit, 'it left by sys.exit("[redacted]")'),
    ],
    ids=["returned", "where it is cut", "an error", "hopeless", "left with"],
)
def test_what_it_was_given_in_secret_is_in_nothing_that_it_says(
    given: Given, says: Callable[[str], Any], shown: str
) -> None:
    def speaks(pin: str) -> Any:
        print(f"the pin is {pin}")
        return says(pin)

    job_function("test.speaks")(speaks)
    context = given(pin="PIN-9'SECRET")
    context.log.secrets = SecretValues(["PIN-9'SECRET"])
    outcome = find_function("test.speaks").run(context)
    assert (outcome.summary or outcome.reason) == shown
    log = "".join(iter(context.log.read, ""))
    assert log.startswith("the pin is [redacted]\n")
    assert "SECRET" not in log
