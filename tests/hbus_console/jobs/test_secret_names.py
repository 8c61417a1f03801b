"""The page of a job, its API and the audit log hide by the same names."""

from __future__ import annotations

import pytest

from engine.core.redaction import REDACTED
from engine.core.secret_names import PARTS, WORDS
from hbus_console.audit.redact import redact
from hbus_console.jobs.showing import MASK, is_secret, masked
from tests.engine.core.test_secret_names import FOUND


@pytest.mark.parametrize("name", [*PARTS, *sorted(WORDS), *FOUND])
def test_what_one_reader_of_names_masks_the_others_mask(name: str) -> None:
    assert masked({name: "SUBKEYLONG1"}) == {name: MASK}
    assert is_secret(name, {"type": "string"})
    assert redact({name: "SUBKEYLONG1"}) == {name: REDACTED}


@pytest.mark.parametrize("name", [*sorted(WORDS)])
def test_what_a_word_heads_has_its_own_names(name: str) -> None:
    inner = {name: {"user": "svc", "password": "x"}}
    assert masked(inner) == {name: {"user": "svc", "password": MASK}}
    assert redact(inner) == {name: {"user": "svc", "password": REDACTED}}


@pytest.mark.parametrize("value", [None, "", True, False])
def test_what_tells_that_there_is_one_is_none(value: object) -> None:
    assert redact({"password": value, "otp": value}) == {"password": value, "otp": value}
