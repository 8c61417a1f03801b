"""``manage.py audit verify|export|anchor``: prove the audit log, take it away, anchor its head."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any, BinaryIO

from django.core.management.base import BaseCommand, CommandError

from engine.core.clock import from_rfc3339, to_datetime, to_rfc3339
from engine.core.error_text import words_of
from engine.core.errors import BadInput, Conflict, HbusError
from hbus_console.access.command_line import command_line_actor
from hbus_console.audit.anchor import anchor_head, is_young, last_anchor
from hbus_console.audit.beginning import begin_anchors
from hbus_console.audit.export import FORMATS, export
from hbus_console.audit.state import verify_now
from hbus_console.audit.trail import BY, read_filter


class Command(BaseCommand):
    help = "Verify the audit log (exit 1 when it does not hold), export it, or anchor its head now."

    def add_arguments(self, parser: ArgumentParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True)
        verify = acts.add_parser("verify", help="walk the whole chain; exit 1 when it does not hold")
        verify.add_argument("--json", action="store_true", help="print one JSON line")
        verify.add_argument("--since-last", action="store_true", help="only entries after the last verification")
        take = acts.add_parser("export", help="write the log, oldest entry first; this becomes an entry itself")
        take.add_argument("--as", dest="form", choices=sorted(FORMATS), default="jsonl")
        take.add_argument("--output", type=Path, help="a file (must not exist); standard output without it")
        take.add_argument("--reason", default="", help="why; stands in the audit log")
        for name in ("actor", "action", "target", "correlation", "q"):
            take.add_argument(f"--{name}", default="", help=f"only entries with this {name}")
        take.add_argument("--by", choices=sorted(BY), default="", help="only entries by these")
        take.add_argument("--from", dest="start", default="", help="from this RFC 3339 instant")
        take.add_argument("--to", dest="end", default="", help="up to this RFC 3339 instant")
        fix = acts.add_parser("anchor", help="anchor the head of the chain in STATE/audit/anchors.jsonl")
        fix.add_argument("--begin", action="store_true", help="where no anchor is left, or none was; an entry itself")
        fix.add_argument("--reason", default="", help="why they begin; stands in the audit log")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            match options["act"]:
                case "verify":
                    self._verify(options)
                case "export":
                    self._export(options)
                case _:
                    self._anchor(options)
        except (HbusError, OSError) as error:
            raise CommandError(words_of(error), returncode=2) from error

    def _verify(self, options: dict[str, Any]) -> None:
        verdict = verify_now(full=not options["since_last"])
        if options["json"]:
            self.stdout.write(json.dumps(verdict.as_dict()))
        else:
            self.stdout.write(verdict.sentence())
            for finding in verdict.findings:
                self.stdout.write(f"  {finding.kind.value}: {finding.what}")
            if (left := verdict.findings_total - len(verdict.findings)) > 0:
                self.stdout.write(f"  and {left:,} more")
        if not verdict.holds:
            sys.exit(1)

    def _export(self, options: dict[str, Any]) -> None:
        wanted = read_filter({name: options[name] for name in ("actor", "action", "target", "correlation", "q", "by")})
        start, end = (_moment(options[name], name) for name in ("start", "end"))
        path: Path | None = options["output"]
        # Opened first: an export that cannot be written is not audited as one that was made.
        file: BinaryIO = path.open("xb") if path else sys.stdout.buffer
        try:
            found = export(command_line_actor(), options["form"], wanted, start, end, reason=options["reason"])
            for chunk in found.chunks():
                file.write(chunk)
            file.flush()
        except BadInput:
            if path:
                path.unlink()
            raise
        finally:
            if path:
                file.close()

    def _anchor(self, options: dict[str, Any]) -> None:
        anchor = begin_anchors(command_line_actor(), options["reason"]) if options["begin"] else anchor_head()
        if anchor is None and last_anchor() is None and not is_young():
            raise Conflict(
                "No anchor is left on this host, and the log is not young: it may have been cut off.",
                remedy="Compare it with a backup and the shipped anchors; then begin them with --begin --reason.",
            )
        if anchor is None:
            self.stdout.write("The head is anchored already.")
        else:
            self.stdout.write(f"Entry {anchor.seq:,} anchored at {to_rfc3339(anchor.at_ms)}: {anchor.hash}")


def _moment(text: str, field: str) -> Any:
    if not text:
        return None
    try:
        return to_datetime(from_rfc3339(text))
    except ValueError as error:
        raise BadInput(f"{text!r} is no instant.", remedy="Write 2026-11-21T08:00:00Z.", field=field) from error
