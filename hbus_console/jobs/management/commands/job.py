"""``manage.py job``: have a job run now and follow it; compare a file of jobs with what there is, and make it so; and
make such a file of Celery's periodic entries.
"""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from engine.core.error_text import words_of
from engine.core.errors import BadInput, HbusError
from engine.cron.slots.steps import RunState
from hbus_console.access.command_line import command_line_actor
from hbus_console.access.permissions import Actor
from hbus_console.jobs import as_code, from_beat
from hbus_console.jobs.models import JobRun, LogPiece
from hbus_console.jobs.parameter_form import read_json
from hbus_console.jobs.planned import PlannedChange
from hbus_console.jobs.services.foreseeing import foresee
from hbus_console.jobs.services.triggering import Trigger, trigger
from hbus_console.jobs.told_runs import stands

#: Seconds between two looks at the run.
LOOK_S = 0.3


class Command(BaseCommand):
    help = (
        "Have a job run now, make jobs what a file says, or a file of Celery's periodic entries. "
        "Exit 1: the run is not done, or a job could not be made so."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True)
        now = acts.add_parser("trigger", help="one run, beside its slots")
        now.add_argument("job", help="its name")
        now.add_argument("--parameters", default="", help="a JSON object; the job's own without it")
        now.add_argument("--reason", default="", help="kept in the audit log; may be left out of a dry run alone")
        now.add_argument("--dry-run", action="store_true", help="say what it would meet, and do nothing")
        now.add_argument("--key", default="", help="under the same key it is one run, however often it is asked for")
        now.add_argument("--wait", action="store_true", help="until it has ended; Ctrl-C only stops looking")
        now.add_argument("--json", action="store_true", help="print the run as one JSON object")

        for act, what in (("plan", "what a file would change"), ("apply", "make jobs what a file says")):
            files = acts.add_parser(act, help=what)
            files.add_argument("file", type=Path, help="YAML or JSON, see docs/jobs.md")
            files.add_argument("--prune", default="", metavar="hotel.", help="delete jobs of that beginning not in it")
            if act == "apply":
                files.add_argument("--reason", required=True, help="kept in the audit log")

        beat = acts.add_parser("import-beat", help="Celery's periodic entries as a file for plan and apply")
        beat.add_argument("app", metavar="MODULE:APP", help="the Celery app, as celery -A names it")
        beat.add_argument("--owner", required=True, metavar="TEAM", help="who answers for the jobs")
        beat.add_argument("--output", type=Path, metavar="FILE", help="a new file; printed without it")

    def handle(self, *_: Any, **options: Any) -> None:
        if options["act"] == "trigger":
            self._trigger(options)
        elif options["act"] == "import-beat":
            self._import_beat(options["app"], options["owner"], options["output"])
        else:
            self._from_file(options)

    def _import_beat(self, app: str, owner: str, output: Path | None) -> None:
        found = from_beat.import_beat(app, owner)
        for problem in found.problems:
            self.stderr.write(problem)
        if found.problems:
            said = f"{len(found.problems)} of what {app} says cannot be imported; no file was written."
            raise BadInput(said, remedy="What is wrong stands above.", field="app")
        text = from_beat.file_of(found, owner)
        if output is None:
            self.stdout.write(text, ending="")
            return
        try:
            with output.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            raise BadInput(
                f"{output} is there already.", remedy="Name a new file, or remove it.", field="output"
            ) from None
        except OSError as error:
            raise BadInput(f"{output} cannot be written: {words_of(error)}.", field="output") from error
        self.stdout.write(f"{len(found.drafts)} jobs stand in {output}.")

    def _from_file(self, options: dict[str, Any]) -> None:
        try:
            text = options["file"].read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"{options['file']} cannot be read: {words_of(error)}.", field="file") from error
        actor = command_line_actor()
        planned = as_code.plan(actor, as_code.read_jobs(text), options["prune"])
        failed = 0
        for each in planned:
            if each.act == "same":
                continue
            self.stdout.write(f"{each.act} {each.name}")
            for name, was, now in each.differs:
                self.stdout.write(f"  {name}: {was!r} -> {now!r}")
            if options["act"] == "apply":
                failed += self._apply(actor, each, options["reason"])
        same = sum(each.act == "same" for each in planned)
        self.stdout.write(f"{same} of {len(planned)} as they are.")
        if failed:
            raise HbusError(f"{failed} could not be made so.", remedy="What they say stands above.")

    def _apply(self, actor: Actor, planned: PlannedChange, reason: str) -> int:
        try:
            as_code.apply(actor, planned, reason)
        except HbusError as error:
            self.stderr.write(f"{planned.name}: {error}")
            return 1
        return 0

    def _trigger(self, options: dict[str, Any]) -> None:
        typed = options["parameters"]
        asked = Trigger(read_json(typed) if typed else None, options["reason"], options["key"])
        if options["dry_run"]:
            self._foresee(options, asked)
            return
        made = trigger(command_line_actor(), options["job"], asked)
        run = made.run
        if not options["json"]:
            said = "waits for a worker" if made.new else "was asked for before"
            self.stdout.write(f"Run {run.pk} of {run.job} {said}.")
        if options["wait"]:
            self._follow(run, quiet=options["json"])
        if options["json"]:
            told = {"id": run.pk, "job": run.job, "new": made.new, "state": run.state, "reason": run.reason}
            self.stdout.write(json.dumps({**told, "summary": run.summary}))
        if options["wait"] and run.state != RunState.DONE:
            raise HbusError(
                f"Run {run.pk} of {run.job} is {run.state}: {run.reason}.", remedy="Its log says more.", field="run"
            )

    def _foresee(self, options: dict[str, Any], asked: Trigger) -> None:
        found = foresee(command_line_actor(), options["job"], asked)
        if options["json"]:
            self.stdout.write(json.dumps([asdict(each) for each in found]))
            return
        for each in found:
            self.stdout.write(f"{each.label}: {each.said}")
        self.stdout.write("Nothing has happened.")

    def _follow(self, run: JobRun, *, quiet: bool) -> None:
        shown = 0
        while True:
            # The log is whole before the end is told.
            run.refresh_from_db()
            for piece in LogPiece.objects.filter(run=run.pk, seq__gt=shown):
                shown = piece.seq
                if not quiet:
                    self.stdout.write(piece.text, ending="")
            if run.ended_us is not None:
                break
            time.sleep(LOOK_S)
        if not quiet:
            self.stdout.write(f"It {stands(run.state)}.{f' {run.summary}' if run.summary else ''}")
