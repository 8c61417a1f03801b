"""``manage.py move_topic``: move a live topic to another transport, as the page does, and tell how far it is."""

from __future__ import annotations

import time
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from engine.core.errors import HbusError
from hbus_console.access.command_line import command_line_actor
from hbus_console.operations import services
from hbus_console.operations.models import Operation
from hbus_console.topics.services.moving import DISPENSABLE

#: Seconds between two looks at the operation.
LOOK_S = 0.5


class Command(BaseCommand):
    help = "Move a topic to another transport while it is in use. The keeper does the work; Ctrl-C only stops looking."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("topic")
        parser.add_argument("--to", required=True, help="the transport's name")
        parser.add_argument(
            "--without", action="append", choices=DISPENSABLE, help="switch this off where the other does not know it"
        )
        parser.add_argument("--reason", required=True, help="kept in the audit log")
        parser.add_argument("--dry-run", action="store_true", help="only tell what would happen")

    def handle(self, *_: Any, **options: Any) -> None:
        actor, spec = command_line_actor(), {"topic": options["topic"], "to": options["to"]}
        if options["without"]:
            spec["without"] = options["without"]
        plan = services.dry_run(actor, "move", spec)
        for line in (plan.scanned, *plan.warnings):
            self.stdout.write(f"{line}")
        if options["dry_run"]:
            return
        started = services.start(actor, "move", spec, reason=options["reason"])
        self.stdout.write(started.sentence)
        self._follow(started.operation)

    def _follow(self, operation: Operation) -> None:
        said = ""
        while operation.active:
            line = operation.last_error or operation.note
            if line and line != said:
                self.stdout.write(line)
                said = line
            time.sleep(LOOK_S)
            operation.refresh_from_db()
        for item in operation.items.all():
            self.stdout.write(f"{item.subject.name}: {item.detail}")
        if operation.state != Operation.State.DONE:
            raise HbusError(
                f"Operation {operation.pk} is {operation.state}. {operation.last_error}".strip(),
                remedy="Both transports are read until it is done; start it again to go on.",
            )
        self.stdout.write(operation.note)
