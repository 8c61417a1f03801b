from __future__ import annotations

from tests.hbus_console.accounts.conftest import admin, admin_actor, make_user

__all__ = ["admin", "admin_actor", "make_user"]
