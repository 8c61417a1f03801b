"""What a run was given and nothing that comes of it is to show: neither its log, nor its end, nor what it returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from engine.core.redaction import redacted_parts
from engine.core.secret_values import NO_SECRETS, UNKNOWN_SECRETS, SecretValues
from hbus_console.jobs.models import JobRun, JobVersion
from hbus_console.jobs.services.secrecy import secrecy_of
from hbus_console.jobs.showing import hidden_in, masked

_SCHEMES = ("apikey", "basic", "bearer", "token")


def secrets_given(run: JobRun, settings: Mapping[str, Any]) -> SecretValues:
    """Those of ``run``, which does what the ``settings`` of its version say.

    Of the options what is called secret, and not all that only who may change them is shown: an environment says much
    that is none (``info``, ``true``), and a log without these words says nothing.
    """
    parameters = settings.get("parameters") if run.parameters is None else run.parameters
    options = settings.get("options") or {}
    found = list(hidden_in(options, masked(options)))
    if parameters:
        found += hidden_in(parameters, secrecy_of(run.job).masked(parameters, settings))
    texts = [each for each in found if isinstance(each, str)] + [settings.get("target") or ""]
    return SecretValues([*found, *(part for text in texts for part in _secret_parts(text))])


def _secret_parts(text: str) -> list[str]:
    """The secrets themselves in a text that is hidden, or shown without them: in an address, behind the name of a
    scheme, among the arguments of a program."""
    scheme, _, behind = text.partition(" ")
    parts = [*redacted_parts(text), *([behind.strip()] if scheme.lower() in _SCHEMES else [])]
    return [each for part in parts for each in (part, unquote(part))]


def secrets_of_run(number: int) -> SecretValues:
    """Those of the run of that number, for a log that its worker left behind."""
    run = JobRun.objects.filter(pk=number).first()
    if run is None:
        # Nobody reads the log of a run that there is not.
        return NO_SECRETS
    version = JobVersion.objects.filter(job__name=run.job, number=run.version).first()
    # With a job it is forgotten what of it is secret.
    return UNKNOWN_SECRETS if version is None else secrets_given(run, version.settings)
