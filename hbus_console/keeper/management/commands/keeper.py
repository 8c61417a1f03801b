"""``manage.py keeper``: the keeper role in the foreground."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand


class Command(BaseCommand):
    help = "Run the background duties until SIGTERM; several keepers share them by leases."
    requires_system_checks: list[str] = []

    def handle(self, *_: Any, **__: Any) -> None:
        # The duties are half of the house, and the options of this command need none of it.
        from hbus_console.keeper import role

        role.run()
