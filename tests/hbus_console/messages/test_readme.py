"""What the README tells a newcomer to send is taken."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.test import Client

from hbus_console.state import ROOT

_CURL = re.compile(r"^curl -X POST http://127\.0\.0\.1:8000(\S+) .*?-d '(.*?)'$", re.MULTILINE | re.DOTALL)

pytestmark = [pytest.mark.django_db(databases=["default", "ledger"]), pytest.mark.usefixtures("installation")]


def test_the_commands_of_the_readme_are_taken_one_after_the_other(sign_in: Callable[..., Client]) -> None:
    commands = _CURL.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    client = sign_in()
    answers = [client.post(path, body, content_type="application/json") for path, body in commands]
    assert [answer.status_code for answer in answers] == [201, 201], [answer.content for answer in answers]
