"""Answers that are kept for a key, given again as they may be seen by then: a version may call more secret since."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hbus_console.api.views import ApiView
from hbus_console.jobs.models import FormerJob, Job, JobVersion
from hbus_console.jobs.services.secrecy import UNKNOWN, Secrecy, secrecy_of
from hbus_console.jobs.services.secrets import sees_whole, shown_settings


class JobsView(ApiView):
    """An endpoint whose answers show a job, or a run."""

    def shown_again(self, kept: Any) -> Any:
        if not isinstance(kept, Mapping):
            return kept
        shown = {name: self.shown_again(value) if name == "run" else value for name, value in kept.items()}
        name = kept.get("job") or kept.get("name")
        if not isinstance(name, str) or "parameters" not in kept:
            return shown
        gone = FormerJob.objects.filter(name=name).exists() or not Job.objects.filter(name=name).exists()
        # Whoever has its name by now.
        secrecy = UNKNOWN if gone else secrecy_of(name)
        return {**shown, **(self._job(name, kept, secrecy) if "target" in kept else _run(name, kept, secrecy))}

    def _job(self, name: str, kept: Mapping[str, Any], secrecy: Secrecy) -> dict[str, Any]:
        # Who might change it when the answer was given may have lost that right.
        whole = sees_whole(self.actor, name, kept)
        shown = shown_settings(kept, secrecy, whole=whole)
        return shown if whole else {**shown, "schema": secrecy.shown_schema(kept.get("schema"))}


def _run(name: str, kept: Mapping[str, Any], secrecy: Secrecy) -> dict[str, Any]:
    if not isinstance(kept["parameters"], Mapping):
        return {}
    version = JobVersion.objects.filter(job__name=name, number=kept.get("version", 0)).first()
    return {"parameters": secrecy.masked(kept["parameters"], version.settings if version else None)}
