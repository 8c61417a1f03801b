"""`manage.py bench AREA`: figures beside their peers, from one run."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from hbus_console.bench import bus
from hbus_console.bench.rows import Row, table


class Command(BaseCommand):
    help = "Measure an area beside its peers and print a table, or one JSON object a line."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("area", choices=["bus"])
        parser.add_argument("--json", action="store_true", help="one JSON object a line; exit 1 when a goal is missed")
        parser.add_argument("--messages", type=int, default=50_000, help="messages a run (default 50,000)")
        parser.add_argument("--peer-messages", type=int, default=2_000, help="tasks a run of a task queue")
        parser.add_argument("--samples", type=int, default=3, help="interleaved runs of each (default 3)")
        parser.add_argument("--no-queues", action="store_true", help="leave the task queues out")

    def handle(self, *_: Any, **options: Any) -> None:
        rows: list[Row] = []
        for row in bus.run(
            count=options["messages"],
            peer_count=options["peer_messages"],
            samples=options["samples"],
            queues=not options["no_queues"],
        ):
            rows.append(row)
            if options["json"]:
                self.stdout.write(row.as_json())
            else:
                self.stderr.write(f"measured: {row.what}")
        if not options["json"]:
            self.stdout.write(table(rows))
            self.stdout.write(rows[0].conditions)
        if any(row.holds is False for row in rows):
            raise SystemExit(1)
