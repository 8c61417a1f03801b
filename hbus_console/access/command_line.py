"""Who acts when a management command is run."""

from __future__ import annotations

import getpass

from hbus_console.access.acts import Role
from hbus_console.access.permissions import GLOBAL, Actor, ScopedRole


def command_line_actor() -> Actor:
    """The operating system's user as an admin: whoever may run commands here holds database and keys anyway.

    The audit log shows ``NAME@shell``.
    """
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        # A container's user need not be in its user database.
        name = "unknown"
    return Actor(name=f"{name}@shell", kind="shell", grants=(ScopedRole(Role.ADMIN, GLOBAL),))
