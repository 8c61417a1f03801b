"""``manage.py prepare``: what ``up`` does before it starts roles, for containers and systemd."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from hbus_console.supervisor import checks
from hbus_console.supervisor.prepare import prepare


class Command(BaseCommand):
    help = "Migrate the databases, collect the assets, and make the first administrator where needed."
    requires_system_checks = []

    def handle(self, *_: Any, **options: Any) -> None:
        checks.check_databases()
        password = prepare(self.stdout.write)
        if password is not None:
            self.stdout.write(f"First start: sign in as admin with {password} (not shown again).")
