from __future__ import annotations

from tests.hbus_console.ui.conftest import admin, admin_actor, browse, make_user, now_ms, page, viewer, viewer_actor

__all__ = ["admin", "admin_actor", "browse", "make_user", "now_ms", "page", "viewer", "viewer_actor"]
