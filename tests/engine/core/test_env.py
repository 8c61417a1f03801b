from __future__ import annotations

from pathlib import Path

import pytest

from engine.core.env import Env
from engine.core.errors import ConfigurationError


def test_values_are_read_by_type() -> None:
    env = Env({"A": "x", "ON": "Yes", "OFF": "0", "N": " 5 ", "LIST": "a, b,,c "})
    assert (env.text("A"), env.text("NONE", "d")) == ("x", "d")
    assert (env.flag("ON"), env.flag("OFF", True), env.flag("NONE", True)) == (True, False, True)
    assert (env.integer("N", 1, least=0, most=9), env.integer("NONE", 7, least=0, most=9)) == (5, 7)
    assert env.words("LIST") == ("a", "b", "c")
    assert Env({"LIST": "/bin/sh python3\t,act\n"}).words("LIST") == ("/bin/sh", "python3", "act")


@pytest.mark.parametrize("value", ["ten", "", "-1", "10", "1.5"])
def test_a_number_out_of_bounds_or_malformed_is_refused_by_name(value: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Env({"N": value}).integer("N", 1, least=0, most=9)
    assert refused.value.field == "N"


def test_a_word_that_is_no_yes_and_no_no_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="not a yes or a no"):
        Env({"A": "perhaps"}).flag("A")


def test_a_value_may_lie_in_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret\n", encoding="utf-8")
    assert Env({"PASSWORD_FILE": str(secret)}).text("PASSWORD") == "s3cret"
    with pytest.raises(ConfigurationError) as refused:
        Env({"PASSWORD_FILE": str(tmp_path / "nowhere")}).text("PASSWORD")
    assert refused.value.field == "PASSWORD_FILE"


def test_counts_are_words_with_numbers_in_order() -> None:
    assert list(Env({"C": "b:*=0 a=10,b=2"}).counts("C").items()) == [("b:*", 0), ("a", 10), ("b", 2)]
    assert Env({}).counts("C") == {}


@pytest.mark.parametrize("value", ["a", "=1", "a=", "a=-1", "a=1.5", "a=²", f"a={10**9}"])
def test_what_is_no_count_is_refused_by_name(value: str) -> None:
    with pytest.raises(ConfigurationError, match="which is no word with a number") as refused:
        Env({"C": value}).counts("C")
    assert refused.value.field == "C"


def test_a_choice_is_one_of_its_words() -> None:
    assert Env({}).choice("C", "a", ("a", "b")) == "a"
    with pytest.raises(ConfigurationError, match="C=c is not known"):
        Env({"C": "c"}).choice("C", "a", ("a", "b"))
