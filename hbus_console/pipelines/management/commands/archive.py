"""``manage.py archive``: which topics are archived, what is in the lake, and whether it is whole."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from datetime import date
from typing import Any

import msgspec
from django.core.management.base import BaseCommand

from engine.core.errors import BadInput, NotThere
from engine.pipeline.archive.tasks import in_this_process, run_task
from engine.pipeline.audit.tasks import run_side_task
from engine.pipeline.delta.exporting import export_tables
from engine.pipeline.lake.state import Kind, LakeState
from engine.pipeline.on_spark import on_spark
from hbus_console.access.command_line import command_line_actor
from hbus_console.pipelines.api.archive import shape
from hbus_console.pipelines.archiving import run_archive, wanted_topics
from hbus_console.pipelines.management.keeping_acts import KeepingActs, add_keeping_acts
from hbus_console.pipelines.rolling import roll_up, told_of_rollup
from hbus_console.pipelines.services import archive_topic, stop_archiving
from hbus_console.pipelines.standing import Standings, topics_seen
from hbus_console.pipelines.telling import told, told_of_upkeep
from hbus_console.pipelines.the_lake import lake
from hbus_console.pipelines.upkeep import keep_up
from hbus_console.ui.formats import counted
from hbus_console.wiring import store
from hbus_console.wiring.spark import spark_session


class Command(KeepingActs, BaseCommand):
    help = "Archive topics, and ask what is archived."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True)
        for act, what in (("on", "have a topic archived"), ("off", "have one archived no further")):
            one = acts.add_parser(act, help=what)
            one.add_argument("topic")
            one.add_argument("--reason", required=True)
        run = acts.add_parser("run", help="archive what waits, now")
        run.add_argument("topics", nargs="*", help="of these archived topics alone")
        run.add_argument("--spark", action="store_true", help="on Spark, at HBUS_SPARK_MASTER, and not in this process")
        run.add_argument("--json", action="store_true")
        acts.add_parser("status", help="what is archived up to when, and what waits").add_argument(
            "--json", action="store_true"
        )
        rollup = acts.add_parser("rollup", help="make series of what came into the lake, now")
        rollup.add_argument("topics", nargs="*", help="of these topics of the lake alone")
        rollup.add_argument("--spark", action="store_true", help="read on Spark, at HBUS_SPARK_MASTER")
        rollup.add_argument("--json", action="store_true")
        verify = acts.add_parser("verify", help="whether every file is there and as it was committed")
        verify.add_argument("--quick", action="store_true", help="compare sizes and no hashes")
        verify.add_argument("--json", action="store_true")
        files = acts.add_parser("files", help="the files that count, for whatever reads Parquet")
        files.add_argument("topic")
        files.add_argument("--from", default="", metavar="DAY", help="stored that day or later, UTC: 2026-11-28")
        files.add_argument("--to", default="", metavar="DAY", help="stored that day or before")
        files.add_argument("--kind", default=Kind.MESSAGES, type=Kind, choices=list(Kind), help="what their rows are")
        delta = acts.add_parser("delta", help="bring Delta tables over the lake's files up to date, now")
        delta.add_argument("topics", nargs="*", help="of these topics of the lake alone")
        delta.add_argument("--json", action="store_true")
        add_keeping_acts(acts)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            getattr(self, f"_{options['act']}")(options)
        finally:
            store.close()

    def _on(self, options: dict[str, Any]) -> None:
        archive_topic(command_line_actor(), options["topic"], options["reason"])
        self.stdout.write(f"{options['topic']} is archived.")

    def _off(self, options: dict[str, Any]) -> None:
        stop_archiving(command_line_actor(), options["topic"], options["reason"])
        self.stdout.write(f"{options['topic']} is archived no further. What the lake has of it stays.")

    def _run(self, options: dict[str, Any]) -> None:
        topics = wanted_topics(options["topics"])
        if not topics:
            self.stderr.write("No topic is archived. Have one archived: `manage.py archive on TOPIC --reason …`.")
            return
        if options["spark"]:
            with spark_session("hbus archive") as spark:
                cores = spark.sparkContext.defaultParallelism
                done = run_archive(topics, on_spark(spark, run_task), cores=cores, warn=self.stderr.write)
        else:
            done = run_archive(topics, in_this_process, warn=self.stderr.write)
        upkeep = keep_up()
        if options["json"]:
            for outcome in (*done.stores, done.ledger, upkeep):
                self.stdout.write(msgspec.json.encode(msgspec.to_builtins(outcome)).decode())
        else:
            self.stdout.write("\n".join([told(done, weighed=True), *told_of_upkeep(upkeep)]))

    def _rollup(self, options: dict[str, Any]) -> None:
        topics = options["topics"]
        if options["spark"]:
            with spark_session("hbus rollup") as spark:
                done = roll_up(topics, execute=on_spark(spark, run_side_task))
        else:
            done = roll_up(topics)
        self.stdout.write(msgspec.json.encode(done).decode() if options["json"] else told_of_rollup(done))

    def _delta(self, options: dict[str, Any]) -> None:
        state = lake().state()
        for topic in options["topics"]:
            _insist_on(topic, state)
        for made in export_tables(lake(), options["topics"]) if state.version else []:
            if options["json"]:
                self.stdout.write(msgspec.json.encode(made, enc_hook=str).decode())
            else:
                much = f"{counted(made.rows, 'row')} in {counted(made.files, 'file')}"
                self.stdout.write(f"{made.folder}: {much}, version {made.version}.")

    def _status(self, options: dict[str, Any]) -> None:
        state = lake().state()
        standings = Standings(state)
        who = command_line_actor()
        rows = [shape(standings, topic, who) for topic in topics_seen(who).order_by("name")]
        if options["json"]:
            for row in rows:
                self.stdout.write(msgspec.json.encode(row).decode())
            return
        for row in rows:
            if row["archived"] or row["messages"]:
                self.stdout.write(_line(row))
        weight = sum(file.bytes for file in state.files.values())
        files, commits = counted(len(state.files), "file"), counted(state.version, "commit")
        self.stdout.write(f"The lake has {files}, {weight:,} bytes, in {commits}.")

    def _verify(self, options: dict[str, Any]) -> None:
        flaws = list(lake().verify(thoroughly=not options["quick"]))
        if options["json"]:
            for flaw in flaws:
                self.stdout.write(msgspec.json.encode(flaw).decode())
        else:
            for flaw in flaws:
                self.stdout.write(f"{flaw.what}: {flaw.how}")
            if not flaws:
                state = lake().state()
                self.stdout.write(
                    f"As they were made{', by their sizes' if options['quick'] else ''}:"
                    f" {counted(state.version, 'commit')} and {counted(len(state.files), 'file')}."
                )
        if flaws:
            sys.exit(1)

    def _files(self, options: dict[str, Any]) -> None:
        topic, first, last = options["topic"], _day(options, "from"), _day(options, "to")
        state = lake().state()
        _insist_on(topic, state)
        for path in lake().paths(state.files_of(topic, first or "", last or "~", options["kind"])):
            self.stdout.write(path)


def _insist_on(topic: str, state: LakeState) -> None:
    if topic not in state.topics:
        raise NotThere(
            f"The lake has nothing of {topic}.", remedy="`manage.py archive status` tells what it has.", field="topic"
        )


def _day(options: dict[str, Any], name: str) -> str:
    """A day as files have it; empty: not said. Raises ``BadInput``."""
    said: str = options[name]
    try:
        return said and date.fromisoformat(said).isoformat()
    except ValueError as error:
        raise BadInput(f"{said!r} is no day.", remedy="Write 2026-11-28.", field=f"--{name}") from error


def _line(row: dict[str, Any]) -> str:
    waiting = "how many wait is not known" if row["waiting"] is None else f"{row['waiting']:,} wait"
    if row["unspooled"]:
        waiting += f", {row['unspooled']:,} of them to be spooled"
    upto = f"up to {row['upto']}" if row["upto"] else "nothing yet"
    kept = waiting if row["archived"] else "not archived any further"
    lost = f", {row['lost']:,} lost before they were archived" if row["lost"] else ""
    ledger = f"; the ledger up to {row['ledger_upto']}" if row["ledger_upto"] else ""
    less = f", {row['ledger_lost']:,} rows of it lost" if row["ledger_lost"] else ""
    return f"{row['topic']}: {row['messages']:,} messages, {upto}; {kept}{lost}{ledger}{less}"
