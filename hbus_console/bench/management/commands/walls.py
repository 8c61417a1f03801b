"""`manage.py walls`: where the time of a message goes, and what subscriptions cost that have none."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from hbus_console.bench import bus, hosted, walls
from hbus_console.bench.arguments import number
from hbus_console.bench.rows import columns


class Command(BaseCommand):
    help = (
        "Print what a message costs our process and its server, beside the peer's, and the server's steps; or what "
        "subscriptions without a message cost the process that hosts them."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--messages", type=number, default=50_000, help="messages a run (default 50,000)")
        parser.add_argument("--only", default="", metavar="TEXT", help="only ways whose name contains it, and no steps")
        parser.add_argument("--samples", type=number, default=3, help="runs of each (default 3)")
        parser.add_argument(
            "--hosted", type=number, nargs="+", metavar="N", help="so many idle subscriptions in one process, instead"
        )
        parser.add_argument("--seconds", type=number, default=20, help="how long these are watched (default 20)")

    def handle(self, *_: Any, **options: Any) -> None:
        if options["hosted"]:
            with bus.measured(count=1, peer_count=1, samples=1) as rig:
                self.stdout.write(columns(list(hosted.lines(rig, options["hosted"], options["seconds"]))) + "\n")
                self.stdout.write(hosted.conditions(rig, options["seconds"]))
            return
        with bus.measured(count=options["messages"], peer_count=1, samples=options["samples"]) as rig:
            self.stdout.write(columns(list(walls.paths(rig, options["only"]))) + "\n")
            if not options["only"]:
                self.stdout.write(columns(list(walls.steps(rig))) + "\n")
            self.stdout.write(walls.conditions(rig))
