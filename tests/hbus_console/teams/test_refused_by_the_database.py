"""What the database does not take of a page's request is refused, and logged with where it failed."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
from django.db import DataError
from django.test import Client

from hbus_console.teams import owned

pytestmark = [pytest.mark.django_db(databases=["default", "ledger"]), pytest.mark.usefixtures("own_keys")]


def test_it_is_logged_as_it_may_be_a_mistake_of_ours(
    signed_in: Callable[..., Client], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def too_long(*_: object) -> None:
        raise DataError("value too long for type character varying(64)")

    client = signed_in()
    monkeypatch.setattr(owned, "teams_with_holdings", too_long)
    with caplog.at_level(logging.ERROR):
        answer = client.get("/teams/")
    assert answer.status_code == 400
    assert "value too long for type" in caplog.text
