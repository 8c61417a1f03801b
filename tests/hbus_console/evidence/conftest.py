from __future__ import annotations

from tests.hbus_console.messages.conftest import book, installation, sign_in

__all__ = ["book", "installation", "sign_in"]
