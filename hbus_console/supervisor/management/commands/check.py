"""``manage.py check``: Django's own, once the apps of HBUS_APPS are found to bring what they declare."""

from __future__ import annotations

from typing import Any

from django.core.management.commands import check

from hbus_console.registry.declared import check_declared


class Command(check.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        # Not one of Django's checks: those run in any order, and the one of the addresses imports every page.
        check_declared()
        super().handle(*args, **options)
