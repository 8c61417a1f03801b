"""Answers that are kept for a key, given again as they may be seen by then: a version may call more secret since."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hbus_console.api.views import ApiView
from hbus_console.jobs.models import FormerJob, Job, JobVersion
from hbus_console.jobs.services.secrecy import UNKNOWN, secrecy_of
from hbus_console.jobs.services.secrets import sees_whole

_SCHEMAS = ("parameters_schema", "schema")


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
        secrecy, parameters = UNKNOWN if gone else secrecy_of(name), kept["parameters"]
        if isinstance(parameters, Mapping):
            number = kept.get("version")
            version = JobVersion.objects.filter(job__name=name, number=number).first() if number else None
            shown["parameters"] = secrecy.masked(parameters, version.settings if version else kept)
        if not sees_whole(self.actor, name, kept):
            shown |= {word: secrecy.shown_schema(kept[word]) for word in _SCHEMAS if kept.get(word)}
        return shown
