"""``manage.py role NAME``: one role alone, in the foreground, for containers and systemd."""

from __future__ import annotations

import os
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from hbus_console.supervisor import roles, running


class Command(BaseCommand):
    help = "Run one role in the foreground until SIGTERM."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "name", help=", ".join(f"{name} ({role.declared.summary})" for name, role in roles.roles().items())
        )
        parser.add_argument("--slot", type=int, default=int(os.environ.get("HBUS_SLOT", "0")), help="which of several")

    def handle(self, *_: Any, **options: Any) -> None:
        running.run(roles.find(options["name"]), options["slot"])
