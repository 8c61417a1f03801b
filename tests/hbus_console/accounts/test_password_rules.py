from __future__ import annotations

import pytest

from engine.core.errors import BadInput
from hbus_console.accounts.models import User
from hbus_console.accounts.sessions import check_password


@pytest.mark.parametrize(
    ("name", "password"),
    [("temp1", "temp1temp1temp1"), ("temp1", "Temp1-TEMP1_temp1!"), ("ana.costa", "costacostacosta"), ("b", "b" * 12)],
)
def test_a_name_repeated_is_no_password(name: str, password: str) -> None:
    with pytest.raises(BadInput, match="nothing but your name, repeated") as refused:
        check_password(password, User(username=name), field="password")
    assert refused.value.field == "password"


def test_a_password_that_holds_the_name_among_others_is_one() -> None:
    check_password("temp1 walks the blue harbour", User(username="temp1"), field="password")
