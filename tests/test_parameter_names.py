"""Names of tests that are made from bytes."""

from __future__ import annotations

import gzip

import pytest

from tests.parameter_names import pytest_make_parametrize_id


def test_bytes_that_a_program_made_must_be_named() -> None:
    with pytest.raises(pytest.UsageError, match="'body' is bytes that nobody can read"):
        pytest_make_parametrize_id(gzip.compress(b"more"), "body")


@pytest.mark.parametrize("value", [b"plain text, as long as it may be, tells itself", b"\xff\x00", "text", 7])
def test_what_was_written_by_hand_names_itself(value: object) -> None:
    assert pytest_make_parametrize_id(value, "body") is None
