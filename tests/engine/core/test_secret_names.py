"""What secrets are called is one list: what one reader of it masks, the others mask."""

from __future__ import annotations

import json

import pytest

from engine.core.redaction import REDACTED, redact_text
from engine.core.secret_names import PARTS, WORDS, hints, tells

#: Found by a stranger: the log of a run hid some of these, and the page of the job and the audit log showed them.
FOUND = (
    *("subscription_key", "functions_key", "Ocp-Apim-Subscription-Key", "x-functions-key", "ssh_key", "pgpass"),
    *("dbpw", "hmac_key", "DB-PASS", "apiKey", "Authorization"),
)


@pytest.mark.parametrize("name", [*PARTS, *FOUND])
def test_a_name_that_tells_does_so_in_a_text_too(name: str) -> None:
    assert tells(name)
    assert redact_text(json.dumps({name: "hunter2abc"})) == json.dumps({name: REDACTED})
    assert redact_text(f"https://h.example/a?x=1&{name}=hunter2abc") == f"https://h.example/a?x=1&{name}={REDACTED}"


@pytest.mark.parametrize("name", [*sorted(WORDS), "X-Signature", "sasToken", "db pw", "image_digest"])
def test_a_word_hints_where_a_part_of_another_does_not(name: str) -> None:
    assert hints(name)


@pytest.mark.parametrize("name", ["key", "partition_key", "passengers", "design", "author", "compass", "pwn", "sash"])
def test_what_is_called_otherwise_is_none(name: str) -> None:
    assert not tells(name)
    assert not hints(name)
