from __future__ import annotations

from typing import Any

import pytest

from engine.core.error_text import TEXT_LIMIT, class_of, shortened, storable, text_of, words_of
from engine.core.secret_values import SecretValues


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


class Named(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        return "not \ud800 me"


class Posing(Exception, metaclass=Named):
    pass


def test_what_cannot_be_stored_is_written_as_an_escape_within_the_bound() -> None:
    assert storable("a\ud800b") == "a\\ud800b"
    assert storable("a\0b") == "a\\x00b"
    assert storable("\udcff" * 10, 8) == "\\udcff\\u"
    assert storable("\0" * 10, 6) == "\\x00\\x"
    assert storable("héllo 🏨") == "héllo 🏨"


def test_what_is_shortened_says_so_and_what_fits_is_left_alone() -> None:
    assert shortened("as it is", 8) == "as it is"
    assert shortened("more than", 8) == "more th…"
    # It may be longer as it can be stored.
    assert shortened("\0" * 8, 8) == "\\x00\\x0…"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("no room"), "ValueError: no room"),
        (ValueError(), "ValueError"),
        (Mute(), "Mute: (its text cannot be had: SystemExit)"),
        (Odd(), "Odd: odd \\ud800"),
        (Posing("x"), "Posing: x"),
        (ValueError("a\0b"), "ValueError: a\\x00b"),
        (OSError(2, "No such file", "a\udcff.txt"), "FileNotFoundError: [Errno 2] No such file: 'a\\udcff.txt'"),
    ],
)
def test_every_exception_has_a_text_that_can_be_sent(error: BaseException, said: str) -> None:
    assert text_of(error) == said
    text_of(error).encode()


def test_texts_are_bounded() -> None:
    error = ValueError("\ud800" * 1_000_000)
    assert len(text_of(error)) == len(words_of(error)) == TEXT_LIMIT
    assert len(text_of(error, 500)) == 500
    assert class_of(error) == "ValueError"


def test_what_looks_like_a_credential_is_left_out() -> None:
    error = OSError("redis://hbus:hunter2@store:6379 refused; see https://hooks.example/x?token=abc Bearer abcdefgh")
    assert text_of(error) == (
        "OSError: redis://hbus:[redacted]@store:6379 refused; see https://hooks.example/x?token=[redacted] "
        "Bearer [redacted]"
    )
    assert words_of(error, 20) == "redis://hbus:[redact", "cut afterwards, or a half of it would be left"


def test_a_secret_that_the_cut_goes_through_is_not_told() -> None:
    error = ValueError(f"{'a ' * (TEXT_LIMIT // 2 - 15)}hbus_0123456789_{'s' * 40}")
    assert "ss" not in words_of(error)
    assert len(words_of(error)) <= TEXT_LIMIT


def test_half_of_a_secret_does_not_come_into_sight_where_others_are_taken_out_before_it() -> None:
    pin = "the-secret-" + "s" * 1_000
    half = 100
    error = ValueError(" " * ((2 * TEXT_LIMIT - half) % (len(pin) + 1)) + (pin + " ") * 20)
    said = words_of(error, secrets=SecretValues([pin]))
    assert len(said) < TEXT_LIMIT
    assert "the-secret" not in said
    assert "ss" not in said
