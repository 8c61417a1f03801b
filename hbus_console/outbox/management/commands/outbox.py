"""``manage.py outbox``: what waits to be published, what was refused, and offering that again."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

import msgspec
from django.core.management.base import BaseCommand

from hbus_console.access.command_line import command_line_actor
from hbus_console.outbox.models import OutboxMessage
from hbus_console.outbox.relay import outbox_state
from hbus_console.outbox.services import retry_refused
from hbus_console.wiring import store

#: How many refused messages are told.
TOLD = 20


class Command(BaseCommand):
    help = "Show the transactional outbox; offer refused messages to the bus again."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True)
        acts.add_parser("status", help="what waits and what was refused").add_argument("--json", action="store_true")
        retry = acts.add_parser("retry", help="offer a topic's refused messages again")
        retry.add_argument("topic")
        retry.add_argument("--reason", required=True, help="why now; it goes into the audit log")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["act"] == "retry":
            count = retry_refused(command_line_actor(), options["topic"], options["reason"])
            store.close()
            self.stdout.write(f"{count} messages for {options['topic']} are offered again.")
            return
        state = outbox_state()
        if options["json"]:
            self.stdout.write(msgspec.json.encode(state).decode())
            return
        oldest = f", the oldest since {state.oldest_at:%Y-%m-%d %H:%M:%S} UTC" if state.oldest_at else ""
        self.stdout.write(f"{state.waiting} wait{oldest}; {state.refused} refused.")
        for row in OutboxMessage.objects.filter(refused_at__isnull=False)[:TOLD]:
            self.stdout.write(f"  {row.topic} {row.message_id}: {row.last_error}")
