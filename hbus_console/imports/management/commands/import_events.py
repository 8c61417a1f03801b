"""``manage.py import_events``: a file of rows becomes events."""

from __future__ import annotations

import signal
import sys
import threading
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from django.core.management.base import BaseCommand
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from hbus_console.access.command_line import command_line_actor
from hbus_console.imports.mapping import Mapping, read_mapping
from hbus_console.imports.rows import fingerprint
from hbus_console.imports.services import ImportReport, ImportRequest, run_import, try_import
from hbus_console.publishing.producer import shared_producer
from hbus_console.wiring import store


class Command(BaseCommand):
    help = "Publish the rows of a CSV, JSON lines or Parquet file (also .gz); goes on where an earlier run stopped."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--topic", help="the topic to publish to")
        parser.add_argument("--type", help="the CloudEvents type of every event (default: the topic's name)")
        parser.add_argument("--key", metavar="COLUMN", help="the column with the ordering key")
        parser.add_argument("--time", metavar="COLUMN", help="the column with the time it happened")
        parser.add_argument("--time-format", metavar="FORMAT", help="its form, as for strptime, e.g. %%m/%%d/%%Y")
        parser.add_argument("--mapping", type=Path, help="JSON: topic, type, key, time, fields, rename, const, casts …")
        parser.add_argument("--rejects", type=Path, help="where rejected rows go (default: FILE.rejects.jsonl)")
        parser.add_argument("--rate", type=float, default=0, metavar="N", help="at most N messages a second")
        parser.add_argument("--batch", type=int, default=500, metavar="N", help="rows published at once (500)")
        parser.add_argument("--dry-run", action="store_true", help="check every row, publish nothing, write nothing")
        parser.add_argument("--from-start", action="store_true", help="do not go on where an earlier run stopped")
        parser.add_argument("--json", action="store_true", help="print one JSON line instead of words")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            report, problems = self._import(options)
        finally:
            store.close()
        self._print(report, problems, as_json=options["json"])
        if not report.holds:
            sys.exit(1)
        if not report.finished:
            sys.exit(130)

    def _import(self, options: dict[str, Any]) -> tuple[ImportReport, list[str]]:
        file: Path = options["file"]
        mapping = read_mapping(options["mapping"]) if options["mapping"] else Mapping()
        given = {name: options[name] for name in ("topic", "type", "key", "time", "time_format") if options[name]}
        request = ImportRequest(
            file=file,
            fingerprint=fingerprint(file),
            mapping=msgspec.structs.replace(mapping, **given),
            rejects=options["rejects"] or file.with_name(f"{file.name}.rejects.jsonl"),
            rate=options["rate"],
            batch=options["batch"],
            from_start=options["from_start"],
        )
        actor, producer = command_line_actor(), shared_producer()
        with _bar(quiet=options["json"]) as bar:
            if options["dry_run"]:
                return try_import(actor, request, producer, progress=bar.show)
            with _interruptible() as stop:
                report = run_import(actor, request, producer, stop=stop, progress=bar.show, waiting=bar.say)
            return report, []

    def _print(self, report: ImportReport, problems: list[str], *, as_json: bool) -> None:
        if as_json:
            answer = {**msgspec.structs.asdict(report), "holds": report.holds}
            self.stdout.write(msgspec.json.encode(answer).decode())
            return
        for problem in problems:
            self.stdout.write(problem)
        verb = "would be published" if report.dry_run else "published"
        self.stdout.write(
            f"{report.file} → {report.topic}: {report.read:,} read = {report.published:,} {verb}"
            f" + {report.deduplicated:,} deduplicated + {report.rejected:,} rejected"
            + (f" + {report.taken_over:,} of the file before it grew" if report.taken_over else "")
        )
        if report.finished and report.resumed_after == report.read:
            self.stdout.write("An earlier run had finished it; nothing was done. --from-start offers every row again.")
        elif report.resumed_after:
            self.stdout.write(f"Went on behind row {report.resumed_after:,}, where an earlier run had stopped.")
        if report.rejects_file:
            self.stdout.write(f"Rejected rows and their reasons: {report.rejects_file}")
        if not report.finished:
            self.stdout.write("Stopped before the end. Run the same command again; it goes on from here.")


class _Bar:
    """The progress on a terminal's standard error; nothing when quiet."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("rows", total=None, note="")

    def show(self, report: ImportReport) -> None:
        note = f"{report.published:,} published, {report.deduplicated:,} repeated, {report.rejected:,} rejected"
        self._progress.update(self._task, completed=report.read, note=note)

    def say(self, why: str) -> None:
        self._progress.update(self._task, note=f"waiting: {why}")


@contextmanager
def _bar(*, quiet: bool) -> Iterator[_Bar]:
    columns = (
        SpinnerColumn(),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), disable=quiet) as progress:
        yield _Bar(progress)


@contextmanager
def _interruptible() -> Iterator[threading.Event]:
    """The event is set by the first Ctrl-C or SIGTERM; the batch at hand is finished and accounted for."""
    stop = threading.Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
