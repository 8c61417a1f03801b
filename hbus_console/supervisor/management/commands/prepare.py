"""``manage.py prepare``: what ``up`` does before it starts roles, for containers and systemd."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from hbus_console.supervisor import checks, prepare


class Command(BaseCommand):
    help = "Migrate the databases, collect the assets, and make the first administrator where needed."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--no-admin", action="store_true", help="leave the first administrator, and the password")

    def handle(self, *_: Any, **options: Any) -> None:
        checks.check_databases()
        prepare.prepare(self.stdout.write)
        if not options["no_admin"] and (password := prepare.first_admin()) is not None:
            self.stdout.write(f"First start: sign in as admin with {password} (not shown again).")
