"""A cell that does not hold what its column promises is a finding, and no end of the verification."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, ScopedRole
from hbus_console.accounts import services
from hbus_console.accounts.models import User
from hbus_console.audit.anchor import anchor_head
from hbus_console.audit.state import chain_state, verify_now

pytestmark = pytest.mark.django_db


@pytest.mark.sqlite  # PostgreSQL refuses a value of another type
@pytest.mark.parametrize(
    "change",
    [
        *(
            f"{column} = CAST({column} AS BLOB)"
            for column in ("actor", "action", "target", "topic", "reason", "address", "hash", "previous_hash")
        ),
        "at = 'yesterday'",
        "at = 0",
        "at = '99999-01-01 00:00:00+00:00'",
        "after = '{'",
        "after = X'00'",
        "seq = 'zzz'",
    ],
)
def test_a_cell_of_another_type_is_a_finding_with_its_entry(
    write: Callable[..., Any], tamper: Callable[..., None], change: str
) -> None:
    write(5)
    anchor_head()
    assert verify_now().holds
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA ignore_check_constraints = ON")
    tamper(f"UPDATE audit_auditentry SET {change} WHERE seq = 3")
    verdict = verify_now(full=True)
    assert {finding.seq for finding in verdict.findings} & {3, 0}, verdict.findings
    assert not any("ends at entry" in finding.what for finding in verdict.findings)
    assert chain_state().word == "broken"
    # The log goes on, and its page opens.
    write(1)
    user = services.create_user(SYSTEM, "reader", [ScopedRole(Role.ADMIN, "*")]).user
    User.objects.filter(pk=user.pk).update(must_change_password=False)
    client = Client()
    client.force_login(user)
    assert client.get("/audit/").status_code == 200
    assert client.get("/api/v1/audit/entries").status_code == 200
