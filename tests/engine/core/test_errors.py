from __future__ import annotations

from engine.core.errors import LONGEST_FIELD, LONGEST_WHAT, BadInput


def test_what_an_error_quotes_does_not_make_it_long() -> None:
    name = "x" * 1_000_000
    error = BadInput(f"Attribute {name} is not allowed.", remedy="Use 20.", field=f"data.{name}.here")
    assert len(error.what) <= LONGEST_WHAT
    assert error.what.startswith("Attribute xxx")
    assert error.what.endswith("xxx is not allowed.")
    assert str(error) == f"{error.what} Use 20."
    assert len(error.field) <= LONGEST_FIELD
    assert (error.field[:6], error.field[-6:]) == ("data.x", "x.here")


def test_what_fits_is_said_whole() -> None:
    what = "w" * LONGEST_WHAT
    assert BadInput(what).what == what
