"""What a stranger sends is told in one line each."""

from __future__ import annotations

import json
import logging

import pytest
from django.test import Client

from hbus_console import log_setup


@pytest.mark.django_db
def test_a_host_that_is_none_of_ours_is_one_line_without_our_traceback(
    client: Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    log_setup.configure()
    assert client.get("/login/", headers={"host": "evil.example"}).status_code == 400
    (line,) = [json.loads(each) for each in capsys.readouterr().err.splitlines() if "evil.example" in each]
    assert line["logger"] == "django.security.DisallowedHost"
    assert "exception" not in line
    assert "Traceback" not in json.dumps(line)
