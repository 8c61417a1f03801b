"""``manage.py verify_audit FILE``: whether an exported audit is as it was signed, and what it says."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from engine.core.error_text import words_of
from engine.core.errors import BadInput
from hbus_console.pipelines.audits.signing import key_id, public_key, verified


class Command(BaseCommand):
    help = "Verify the signature of an exported audit. Exit 2: it does not hold."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", help="as it was exported, JSON")
        parser.add_argument("--key", default="", metavar="HEX", help="the public key; this installation's unless said")

    def handle(self, *args: Any, **options: Any) -> None:
        key = options["key"].strip() or public_key()
        try:
            envelope = json.loads(Path(options["file"]).read_bytes())
        except (OSError, ValueError) as error:
            raise BadInput(
                f"{options['file']} cannot be read: {words_of(error)}", remedy="Give an exported audit.", field="file"
            ) from error
        told = json.loads(verified(envelope, key))
        # An export of a release before has none.
        judged, of = len(told.get("judged", [])), told.get("of")
        beside = f", {judged:,} beside them" if judged else ""
        self.stdout.write(
            f"Signed by {key_id(key)}: audit {told['audit']} of {told['at']}, {told['verdict']},"
            f" {len(told['topics'])} topics{beside}{f', of {of}' if of else ''}."
        )
