"""``manage.py restore``: an installation of a backup. Django's own start would come too early, see the module."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from hbus_console.supervisor import restore


class Command(BaseCommand):
    help = "Make an installation of a backup, in an empty STATE, and prove its audit log."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        restore.add_arguments(parser)

    def handle(self, *_: Any, **options: Any) -> None:
        sys.exit(restore.run(options["file"], self.stdout.write))
