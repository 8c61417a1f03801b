from __future__ import annotations

import time
from typing import Any

import pytest

from engine.core.error_text import CAUSES, TEXT_LIMIT, causes_of, class_of, storable, text_of, traceback_of, words_of


class Mute(Exception):
    def __str__(self) -> str:
        raise SystemExit("nothing to say")


class Text(str):
    def __getitem__(self, key: Any) -> str:
        raise RuntimeError("no part of me")

    def encode(self, *args: Any) -> bytes:
        raise RuntimeError("not me")


class Odd(Exception):
    def __str__(self) -> str:
        return Text("odd \ud800")

    @property
    def __cause__(self) -> BaseException | None:  # type: ignore[override]
        raise RuntimeError("no cause for you")

    @property
    def __traceback__(self) -> Any:  # type: ignore[override]
        raise RuntimeError("no place for you")


class Named(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        return "not \ud800 me"


class Posing(Exception, metaclass=Named):
    pass


def test_what_cannot_be_stored_is_written_as_an_escape_within_the_bound() -> None:
    assert storable("a\ud800b") == "a\\ud800b"
    assert storable("\udcff" * 10, 8) == "\\udcff\\u"
    assert storable("héllo 🏨") == "héllo 🏨"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("no room"), "ValueError: no room"),
        (ValueError(), "ValueError"),
        (Mute(), "Mute: (its text cannot be had: SystemExit)"),
        (Odd(), "Odd: odd \\ud800"),
        (Posing("x"), "Posing: x"),
        (OSError(2, "No such file", "a\udcff.txt"), "FileNotFoundError: [Errno 2] No such file: 'a\\udcff.txt'"),
    ],
)
def test_every_exception_has_a_text_that_can_be_sent(error: BaseException, said: str) -> None:
    assert text_of(error) == said
    text_of(error).encode()
    assert causes_of(error) == ""
    assert traceback_of(error, 6) == ""


def test_texts_are_bounded() -> None:
    error = ValueError("\ud800" * 1_000_000)
    assert len(text_of(error)) == len(words_of(error)) == TEXT_LIMIT
    assert len(text_of(error, 500)) == 500
    assert class_of(error) == "ValueError"


def test_the_chain_of_causes_is_followed_and_bounded() -> None:
    error = ValueError("here")
    error.__cause__ = Mute()
    error.__cause__.__cause__ = KeyError("deep \ud800")
    assert causes_of(error).splitlines() == [
        "caused by Mute: (its text cannot be had: SystemExit)",
        "caused by KeyError: 'deep \\ud800'",
    ]
    error.__cause__.__cause__.__cause__ = error
    assert len(causes_of(error).splitlines()) == 2
    long: BaseException = ValueError("last")
    for _ in range(100):
        long, before = ValueError("one"), long
        long.__cause__ = before
    assert len(causes_of(long).splitlines()) == CAUSES


def test_a_traceback_names_the_places() -> None:
    with pytest.raises(Mute) as raised:
        raise Mute
    assert "test_a_traceback_names_the_places" in traceback_of(raised.value, 6)


def test_a_source_that_cannot_be_read_costs_the_traceback_only() -> None:
    class Loader:
        def get_source(self, name: str) -> str:
            raise RuntimeError("no source")

    names: dict[str, Any] = {"__name__": "made", "__loader__": Loader()}
    exec(compile("def fail():\n    raise ValueError('x')", "<made up>.py", "exec"), names)
    with pytest.raises(ValueError, match="x") as raised:
        names["fail"]()
    assert traceback_of(raised.value, 6)


def test_what_looks_like_a_credential_is_left_out() -> None:
    error = OSError("redis://hbus:hunter2@store:6379 refused; see https://hooks.example/x?token=abc Bearer abcdefgh")
    assert text_of(error) == (
        "OSError: redis://hbus:[redacted]@store:6379 refused; see https://hooks.example/x?token=[redacted] "
        "Bearer [redacted]"
    )
    assert "hunter2" not in causes_of(_caused_by(error))
    assert words_of(error, 20) == "redis://hbus:[redact", "cut afterwards, or a half of it would be left"


def _caused_by(error: BaseException) -> BaseException:
    try:
        raise ValueError("no") from error
    except ValueError as raised:
        return raised


@pytest.mark.parametrize("piece", ["?token", "a.", "a://", "a://:", "&sig", "Basic ", "hbus_", "?auth="])
def test_no_text_makes_the_search_for_credentials_long(piece: str) -> None:
    began = time.process_time()
    words_of(ValueError(piece * (TEXT_LIMIT // len(piece))))
    assert time.process_time() - began < 0.5
