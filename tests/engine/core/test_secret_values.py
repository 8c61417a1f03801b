"""Known secrets are taken out of a text, each where it comes back as it is, in bounded time."""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.parse import quote_plus

import pytest

from engine.core.redaction import REDACTED
from engine.core.secret_values import HEAD, NO_SECRETS, UNKNOWN_SECRETS, SecretValues

KEY = "-----BEGIN KEY-----\nMIIBVwIBADANBgkq\nhkiG9w0BAQEFAASC\n-----END KEY-----\n"
LONG = "".join(f"{n:05d}" for n in range(400))


@pytest.mark.parametrize(
    ("value", "text", "shown"),
    [
        ("S3cret", "a S3cret, xS3crety S3cre", f"a {REDACTED}, x{REDACTED}y S3cre"),
        ("0042", "pin=0042", f"pin={REDACTED}"),
        ("abc", "abc", "abc"),
        (735190, "the pin is 735190", f"the pin is {REDACTED}"),
        (12.5, "12.5", REDACTED),
        (True, "true", "true"),
        (None, "null None", "null None"),
        ("", "nothing", "nothing"),
        ({"a": ["inner1"], "b": {"c": "inner2"}}, "inner1 inner2 a b c", f"{REDACTED} {REDACTED} a b c"),
        ('quo"te', json.dumps({"p": 'quo"te'}), f'{{"p": "{REDACTED}"}}'),
        ("pässwörd", json.dumps({"p": "pässwörd"}), f'{{"p": "{REDACTED}"}}'),
        ("pässwörd", "pässwörd", REDACTED),
        ("a'b\\c\"d", repr(["a'b\\c\"d"]), f"['{REDACTED}']"),
        ("to be & not", f"?q={quote_plus('to be & not')}", f"?q={REDACTED}"),
        (KEY, KEY, "".join(f"{REDACTED}\n" for _ in range(4))),
        (KEY, f"before\n{KEY.splitlines()[1]}\r\n", f"before\n{REDACTED}\r\n"),
        (LONG, f"a{LONG}b", f"a{REDACTED}b"),
        (LONG, f"a{LONG[:1_000]}", f"a{REDACTED}"),
    ],
    ids=["text", "digits of four", "three characters", "a number", "a fraction", "true", "null", "empty", "what nests",
         "in JSON", "in JSON, as ASCII", "beyond ASCII", "as Python shows it", "in a query", "of several lines",
         "one line of several", "a long one", "the beginning of a long one"],
)  # fmt: skip
def test_it_is_taken_out_where_it_comes_back_as_it_is(value: Any, text: str, shown: str) -> None:
    assert SecretValues([value]).out_of(text) == shown


def test_the_longest_goes_first_and_the_rest_of_none_is_left() -> None:
    assert (
        SecretValues(["abcd", "abcdef", "abcdxy"]).out_of("abcdef abcdxy abcde") == f"{REDACTED} {REDACTED} {REDACTED}e"
    )


def test_of_a_text_that_is_cut_no_half_of_one_is_left() -> None:
    secrets = SecretValues(["S3cret-value", LONG])
    assert secrets.out_of("it says S3cre", cut=True) == f"it says {REDACTED}"
    assert secrets.out_of("it says S3cre") == "it says S3cre"
    assert secrets.out_of(f"it says {LONG[: HEAD - 1]}", cut=True) == f"it says {REDACTED}"
    assert secrets.out_of("it says all", cut=True) == "it says all"


def test_where_nobody_knows_what_is_secret_no_line_is_shown() -> None:
    assert UNKNOWN_SECRETS.out_of("one\n\ntwo\n") == f"{REDACTED}\n\n{REDACTED}\n"
    assert NO_SECRETS.out_of("one") == "one"


@pytest.mark.parametrize(
    ("values", "text", "shown"),
    [
        (["abcd", "abcdefgh", "abcdefghijkl"], "abcdefghijk abcdefg abcdefghijklm abc", "#ijk #efg #m abc"),
        (["abcd", "abcdzz", "abcdef"], "abcdez abcdzz abcda", "#ez # #a"),
        ([LONG[: HEAD - 1], LONG[:HEAD], LONG], f"{LONG[: HEAD - 1]} {LONG[:HEAD]}x {LONG}y", "# #x #y"),
        ([LONG + "a", LONG + "b", LONG[:900]], f"{LONG}bc {LONG[:950]}z {LONG[: HEAD - 1]}z", f"#c #z {LONG[:255]}z"),
        (["aaaa"], "aaaaaaaaa", "##a"),
    ],
    ids=["of several lengths", "side by side", "around the head", "long ones that begin alike", "one behind another"],
)
def test_of_those_that_begin_alike_the_longest_that_is_there_is_taken_out(
    values: list[str], text: str, shown: str
) -> None:
    assert SecretValues(values).out_of(text) == shown.replace("#", REDACTED)


ONES = "a" * 64 * 1024


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([f"secret-{n:05d}" for n in range(6_000)], "secret-9 " * 7_000),
        (["a" * n + "b" for n in range(4, HEAD)], ONES),
        (["a" * 251 + f"{n:05d}" for n in range(2_000)], ONES),
        (["a" * 60_000 + "b"], ONES),
        (["a" * 300 + f"{n}" for n in range(200)], ("a" * 299 + "b") * 220),
        (["a" * 300 + f"{n}" * 20_000 for n in range(200)], ("a" * 299 + "b") * 220),
        (["a" * 256 + "b" * 2_000_000], ("a" * 256 + "c") * 20_000),
    ],
    ids=[
        "many", "of many lengths", "many that begin alike", "a huge one", "many long ones that begin alike",
        "many huge ones that begin alike", "a huge one that is often begun",
    ],
)  # fmt: skip
def test_many_and_huge_values_cost_little(values: list[str], text: str) -> None:
    secrets = SecretValues(values)
    began = time.process_time()
    secrets.out_of(text, cut=True)
    assert time.process_time() - began < 1.5
