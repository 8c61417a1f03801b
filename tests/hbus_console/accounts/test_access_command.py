from __future__ import annotations

from collections.abc import Callable
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from hbus_console.accounts.models import User
from hbus_console.audit.models import AuditEntry

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("access", *arguments, stdout=out)
    return out.getvalue()


def test_a_user_is_added_and_listed() -> None:
    password = run("add", "anna", "--role", "operator", "--scope", "booking.*").split()[-1]
    assert User.objects.get().check_password(password)
    assert run("list") == "anna  operator on booking.*\n"
    entry = AuditEntry.objects.latest("seq")
    assert (entry.action, entry.actor_kind) == ("user.create", "shell")
    assert entry.actor.endswith("@shell")


def test_a_reset_opens_the_account_again(make_user: Callable[..., User]) -> None:
    anna = make_user("anna")
    User.objects.update(is_active=False)
    password = run("reset", "anna", "--reason", "locked out").split()[-1]
    anna.refresh_from_db()
    assert anna.is_active
    assert anna.check_password(password)
    assert AuditEntry.objects.latest("seq").reason == "locked out"


@pytest.mark.parametrize("arguments", [("add", "Anna"), ("add", "anna", "--scope", "a b"), ("reset", "nobody")])
def test_bad_input_ends_with_2_and_one_line(arguments: tuple[str, ...]) -> None:
    with pytest.raises(CommandError) as caught:
        run(*arguments)
    assert caught.value.returncode == 2
    assert "\n" not in str(caught.value)
    assert not User.objects.exists()
