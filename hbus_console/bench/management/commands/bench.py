"""`manage.py bench AREA`: figures beside their peers, from one run."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from engine.core.errors import BadInput
from hbus_console.bench import baseline, bus, cron, pipeline, quota
from hbus_console.bench.arguments import number
from hbus_console.bench.rig import Measurement, chosen
from hbus_console.bench.rows import Row, table


class Command(BaseCommand):
    help = (
        "Measure an area beside its peers and print a table, or one JSON object a line. Exit 1: a goal was missed; "
        "with --compare nothing is judged."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("area", choices=[bus.AREA, cron.AREA, pipeline.AREA, quota.AREA])
        form = parser.add_mutually_exclusive_group()
        form.add_argument("--json", action="store_true", help="one JSON object a line, as it is measured")
        form.add_argument("--compare", action="store_true", help="beside the saved baseline; exit 0 whatever it says")
        parser.add_argument("--save", action="store_true", help="make the figures the baseline in docs/bench")
        parser.add_argument("--only", default="", metavar="TEXT", help="only rows whose name contains it")
        parser.add_argument("--messages", type=number, default=50_000, help="messages a run (default 50,000)")
        parser.add_argument("--peer-messages", type=number, default=2_000, help="tasks a run of a task queue")
        parser.add_argument("--samples", type=number, default=3, help="interleaved runs of each (default 3)")
        parser.add_argument("--schedules", type=number, default=100_000, help="of cron (default 100,000)")
        parser.add_argument("--calls", type=number, default=100_000, help="of limiters, a round (default 100,000)")
        parser.add_argument("--tenants", type=number, default=10_000, help="of quotas (default 10,000)")
        parser.add_argument("--events", type=number, default=2_000_000, help="of the pipeline (default 2,000,000)")
        parser.add_argument("--larger", action="store_true", help="also audit a lake five times as large")
        parser.add_argument("--no-queues", action="store_true", help="leave the task queues out")

    def handle(self, *_: Any, **options: Any) -> None:
        file = baseline.file_of(options["area"])
        with _area(options) as (everything, offered):
            try:
                before = baseline.load(file) if options["compare"] else {}
                wanted = chosen(offered, options["only"])
            except BadInput as error:
                raise CommandError(str(error), returncode=2) from error
            rows = [self._measured(each, as_json=options["json"]) for each in wanted]
        if options["save"]:
            baseline.save(file, rows, [each.what for each in everything])
        if options["compare"]:
            self.stdout.write(baseline.beside(rows, before))
            return
        if not options["json"]:
            self.stdout.write(table(rows))
            self.stdout.write(rows[0].conditions)
        if any(row.holds is False for row in rows):
            raise SystemExit(1)

    def _measured(self, measurement: Measurement, *, as_json: bool) -> Row:
        row = measurement.measure()
        if as_json:
            self.stdout.write(row.as_json())
        else:
            self.stderr.write(f"measured: {row.what}")
        return row


@contextmanager
def _area(options: dict[str, Any]) -> Iterator[tuple[list[Measurement], list[Measurement]]]:
    """Every row of the area, and those that are asked for."""
    if options["area"] == cron.AREA:
        with cron.measured(schedules=options["schedules"], samples=options["samples"]) as schedules:
            everything = list(cron.measurements(schedules))
            yield everything, everything
        return
    if options["area"] == quota.AREA:
        with quota.measured(calls=options["calls"], tenants=options["tenants"], samples=options["samples"]) as limits:
            everything = list(quota.measurements(limits))
            yield everything, everything
        return
    if options["area"] == pipeline.AREA:
        with pipeline.measured(events=options["events"], samples=options["samples"]) as lakes:
            everything = list(pipeline.measurements(lakes))
            yield everything, everything if options["larger"] else list(pipeline.measurements(lakes, larger=False))
        return
    with bus.measured(
        count=options["messages"], peer_count=options["peer_messages"], samples=options["samples"]
    ) as rig:
        everything = list(bus.measurements(rig))
        yield everything, list(bus.measurements(rig, queues=False)) if options["no_queues"] else everything
