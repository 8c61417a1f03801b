"""Celery's ``beat_schedule`` as a file of jobs, which ``manage.py job plan`` and ``apply`` read."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import unicodedata
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from engine.core.error_text import words_of
from engine.core.errors import BadInput, HbusError
from engine.core.redaction import redact_text
from hbus_console import checks
from hbus_console.jobs.as_code import read_jobs
from hbus_console.jobs.kinds.names import WorkName
from hbus_console.jobs.services.draft import JobDraft, checked
from hbus_console.state import ROOT

#: How long loading the app may take, in seconds, and how much of what went wrong there is told, in characters.
LOAD_S, TOLD = 120.0, 600
#: What all jobs of the file say: a beat, too, tries again while its broker is away.
PATIENCE: dict[str, Any] = {"after_failure": "retry", "attempts": 5}
_MODULE_AND_APP = re.compile(r"[\w.]+:[\w.]+")
_NO_PART = re.compile(r"[^a-z0-9._-]+")
_JOINTS = re.compile(r"[._-]{2,}")


@dataclass(frozen=True)
class BeatImport:
    """What an app's entries become. Where there are ``problems``, each a sentence, nothing else is to be relied on."""

    drafts: list[JobDraft]
    #: Of the whole file, and by the job's name.
    notes: list[str] = field(default_factory=list)
    notes_of: dict[str, list[str]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def import_beat(app: str, owner: str) -> BeatImport:
    """The jobs that the entries of ``app`` (``MODULE:APP``) become, of the team ``owner``."""
    if not _MODULE_AND_APP.fullmatch(app):
        raise BadInput(f"{app!r} names no app.", remedy="Write MODULE:APP, such as proj.celery:app.", field="app")
    found = _read(app)
    problems = [_sentence(problem) for problem in found["problems"]]
    made: dict[str, tuple[str, JobDraft]] = {}
    notes_of: dict[str, list[str]] = {}
    for entry in found["entries"]:
        try:
            draft = _draft(entry, found, owner)
            if draft.name in made:
                raise BadInput(
                    f"Its job would be called {draft.name}, as that of {made[draft.name][0]!r}.",
                    remedy="Rename one of the two entries.",
                )
        except BadInput as error:
            problems.append(f"{entry['name']!r}: {error}")
            continue
        made[draft.name] = (entry["name"], draft)
        notes_of[draft.name] = entry["notes"]
    if not found["entries"] and not problems:
        problems.append(f"{app} has no periodic entries. Its beat_schedule says them.")
    return BeatImport([draft for _, draft in made.values()], _notes(app, found), notes_of, problems)


def job_name(entry: str) -> str:
    """What the job of an entry is called: the same at each import. Raises ``BadInput`` where nothing is left of it."""
    plain = "".join(each for each in unicodedata.normalize("NFKD", entry) if not unicodedata.combining(each)).lower()
    name = _JOINTS.sub(lambda joint: joint[0][0], _NO_PART.sub("-", plain)).strip("._-")
    if not name or len(name) > checks.MAX_NAME:
        raise BadInput(
            "No job can be called as it is.",
            remedy=f"Rename it: letters and digits in parts joined by . _ or -, at most {checks.MAX_NAME} characters.",
        )
    return checks.name(name, "name")


def file_of(found: BeatImport, owner: str) -> str:
    """The YAML file, which :func:`~hbus_console.jobs.as_code.read_jobs` reads as just these drafts."""
    zones = {draft.zone for draft in found.drafts}
    defaults = {"owner": owner, "kind": WorkName.CELERY.value, "zone": zones.pop(), **PATIENCE}
    lines = [f"# {_on_one_line(note)}" for note in found.notes]
    lines += [_yaml({"defaults": defaults}), "jobs:"]
    for draft in found.drafts:
        lines += [f"  # {_on_one_line(note)}" for note in found.notes_of[draft.name]]
        lines.append(textwrap.indent(_yaml([_said(draft, defaults)]), "  "))
    text = "\n".join(lines) + "\n"
    if read_jobs(text) != found.drafts:
        raise HbusError("The file does not say what was read.", remedy="Report this: it is a mistake of hbus.")
    return text


def _read(app: str) -> dict[str, Any]:
    """What the app says, by a process of its own: its settings are not ours, and Django has one set of them each."""
    environment = {key: value for key, value in os.environ.items() if key != "DJANGO_SETTINGS_MODULE"}
    paths = (environment.get("PYTHONPATH", ""), str(ROOT))
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    with tempfile.TemporaryDirectory(prefix="hbus-beat-") as folder:
        file = Path(folder, "entries.json")
        try:
            ran = subprocess.run(
                [sys.executable, "-m", "engine.cron.beat", app, str(file)],
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=LOAD_S,
            )
        except subprocess.TimeoutExpired:
            raise BadInput(
                f"{app} was not loaded within {LOAD_S:g} s.", remedy="Let its modules be imported faster.", field="app"
            ) from None
        try:
            read: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            told = redact_text(ran.stderr[-10 * TOLD :])[-TOLD:].strip() or words_of(error)
            raise BadInput(
                f"{app} was not read (exit code {ran.returncode}): {told}",
                remedy="Load it by itself: python -c 'import MODULE'.",
                field="app",
            ) from error
    return read


def _draft(entry: Mapping[str, Any], found: Mapping[str, Any], owner: str) -> JobDraft:
    late: dict[str, Any] = {}
    if entry["is_crontab"] and found["deadline_s"] is not None:
        late["catch_up_window_s"] = max(1, int(found["deadline_s"]))
    options = {**entry["options"], **({"args": entry["args"]} if entry["args"] else {})}
    draft = JobDraft(
        job_name(entry["name"]),
        owner,
        WorkName.CELERY.value,
        entry["task"],
        entry["expression"],
        options=options,
        parameters=entry["kwargs"],
        zone=found["zone"],
        description=f"Celery's entry {_on_one_line(entry['name'])}",
        **late,
        **PATIENCE,
    )
    checked(draft.name, asdict(draft))
    return draft


def _sentence(problem: Mapping[str, str]) -> str:
    entry = f"{problem['entry']!r}:" if problem["entry"] else ""
    return " ".join(filter(None, (entry, problem["what"], problem["remedy"])))


def _notes(app: str, found: Mapping[str, Any]) -> list[str]:
    notes = [f"The periodic entries of {app}; made by manage.py job import-beat."]
    if found["zone"] != "UTC":
        notes.append(
            "When the clocks change, docs/cron-semantics.md holds, and not what Celery does: see docs/beat.md."
        )
    return notes + list(found["notes"])


def _said(draft: JobDraft, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """What a draft says besides, in the order of the settings."""
    usual = asdict(JobDraft(draft.name, "", "", "", ""))
    return {
        name: value
        for name, value in asdict(draft).items()
        if name == "name" or value != defaults.get(name, usual[name])
    }


def _yaml(said: Any) -> str:
    return yaml.safe_dump(said, sort_keys=False, allow_unicode=True, width=1_000_000).rstrip("\n")


def _on_one_line(text: str) -> str:
    return " ".join(text.split())
