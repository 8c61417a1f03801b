"""``manage.py nsqd``: build the embedded nsqd, once."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from hbus_console.supervisor import nsqd


class Command(BaseCommand):
    help = "Build nsqd from its pinned sources, unless it has been."
    requires_system_checks = []

    def handle(self, *_: Any, **__: Any) -> None:
        self.stdout.write(f"nsqd is in {nsqd.build(self.stdout.write)}.")
