"""`manage.py growth`: what a number of messages a day asks for, from measured costs."""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import fields
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from engine.core.errors import BadInput
from engine.core.sections import replaced
from hbus_console.bench import bus
from hbus_console.bench.arguments import number
from hbus_console.bench.growth import costs, report
from hbus_console.bench.growth.measure import measure
from hbus_console.bench.growth.plan import Demand
from hbus_console.state import ROOT

COSTS = ROOT / "docs" / "bench" / "growth.json"
DOCUMENT = ROOT / "docs" / "scale.md"


class Command(BaseCommand):
    help = "Work out stores, processes and databases for a demand, where the design bends first, and simulate its day."

    def add_arguments(self, parser: ArgumentParser) -> None:
        for each in fields(Demand):
            flag = f"--{each.name.replace('_', '-')}"
            kind = int if isinstance(each.default, int) else float
            parser.add_argument(flag, type=kind, default=each.default, help=f"(default {each.default:,})")
        parser.add_argument("--measure", action="store_true", help="measure the costs on this machine first")
        parser.add_argument("--messages", type=number, default=40_000, help="messages a run of the measuring")
        parser.add_argument("--samples", type=number, default=3, help="runs of the measuring")
        parser.add_argument("--save", action="store_true", help="keep the costs and the tables in docs")

    def handle(self, *_: Any, **options: Any) -> None:
        try:
            demand = Demand(**{each.name: options[each.name] for each in fields(Demand)})
            found = self._measured(options) if options["measure"] else costs.load(COSTS)
        except BadInput as error:
            raise CommandError(str(error), returncode=2) from error
        tables = report.tables(found, demand)
        if options["save"]:
            if options["measure"]:
                costs.save(COSTS, found)
            text = DOCUMENT.read_text(encoding="utf-8")
            DOCUMENT.write_text(replaced(text, "growth", tables), encoding="utf-8")
        self.stdout.write(tables)

    def _measured(self, options: dict[str, Any]) -> costs.Costs:
        with bus.measured(count=options["messages"], peer_count=1, samples=options["samples"]) as rig:
            return measure(rig)
