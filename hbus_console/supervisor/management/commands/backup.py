"""``manage.py backup``: the installation in one file, while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from hbus_console.access.command_line import command_line_actor
from hbus_console.supervisor import checks
from hbus_console.supervisor.backup import back_up


class Command(BaseCommand):
    help = "Write databases, keys and anchors into one file, while everything runs. It holds the keys: keep it closed."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--to", type=Path, required=True, help="the file to make; never written over")
        parser.add_argument("--reason", default="", help="why; stands in the audit log")

    def handle(self, *_: Any, **options: Any) -> None:
        target = options["to"].expanduser().absolute()
        checks.check_databases()
        checks.check_migrated()
        made = back_up(command_line_actor(), target, reason=options["reason"], say=self.stdout.write)
        self.stdout.write(f"{target}: {made.size:,} bytes, with the audit log up to entry {made.audit_seq:,}.")
        self.stdout.write(
            "IT HOLDS THE KEYS of this installation (mode 0600): whoever reads it can sign in as anybody."
        )
        for key in made.keys_elsewhere:
            self.stdout.write(f"{key} is not in it, because the environment gives it: keep that too.")
        self.stdout.write("The messages of the store are not in it: see docs/operations.md.")
