"""What looks like a credential is not kept, however a program prints it; what does not is left as it is."""

from __future__ import annotations

import pytest

from engine.core.redaction import REDACTED, redact_text


@pytest.mark.parametrize(
    ("printed", "kept"),
    [
        ("login password=hunter2 ok", f"login password={REDACTED} ok"),
        ("DB_PASSWORD=hunter2", f"DB_PASSWORD={REDACTED}"),
        ("client_secret=abc&grant=x", f"client_secret={REDACTED}&grant=x"),
        ('{"password": "hunter2", "n": 1}', f'{{"password": "{REDACTED}", "n": 1}}'),
        ("{'apiKey': 'one two'}", f"{{'apiKey': '{REDACTED}'}}"),
        ("key AKIAIOSFODNN7EXAMPLE.", f"key AKIA{REDACTED}."),
        (f"token={REDACTED}", f"token={REDACTED}"),
    ],
)
def test_a_credential_is_not_kept(printed: str, kept: str) -> None:
    assert redact_text(printed) == kept


@pytest.mark.parametrize("text", ["max_tokens=100", "the password: at least 12 letters", "key=1", '{"token": 7}'])
def test_what_is_none_stays(text: str) -> None:
    assert redact_text(text) == text
