"""What a run was given and nothing that comes of it is to show: neither its log, nor its end, nor what it returns."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from engine.core.redaction import redacted_parts
from engine.core.secret_values import NO_SECRETS, UNKNOWN_SECRETS, SecretValues
from hbus_console.jobs.models import JobRun, JobVersion
from hbus_console.jobs.services.secrecy import secrecy_of
from hbus_console.jobs.showing import hidden_in, masked

_SCHEMES = ("apikey", "basic", "bearer", "negotiate", "oauth", "ssws", "token")
#: A cookie's name and value. Between cookies there is a blank, which there is none of in other lists of settings.
_PAIR = re.compile(r"[^\s=;,\"]{1,200}=([^\s;]*)")
#: What is shorter, in characters, is a word as a rule (``dark``, ``en-US``), and a log without it says nothing.
_LEAST_OF_A_COOKIE = 8


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
    texts = [text for each in found for text in _texts(each)]
    parts = [part for text in [*texts, settings.get("target") or ""] for part in _secret_parts(text)]
    return SecretValues([*found, *parts, *(part for text in texts for part in _held_by(text))])


def _texts(hidden: Any) -> Iterator[str]:
    """Those that it holds, at whatever depth: what is hidden whole may be a list, or an object."""
    if isinstance(hidden, str):
        yield hidden
    elif isinstance(hidden, Mapping | list):
        for each in hidden.values() if isinstance(hidden, Mapping) else hidden:
            yield from _texts(each)


def _secret_parts(text: str) -> Iterator[str]:
    """The secrets themselves in a text that is shown without them: in an address, behind the name of a scheme, in a
    cookie, among the arguments of a program."""
    for part in redacted_parts(text):
        yield from _spelt(part)
        yield from _held_by(part)


def _held_by(secret: str) -> Iterator[str]:
    """Those that a secret consists of, which whoever was given it may say by themselves."""
    scheme, _, behind = " ".join(secret.split(maxsplit=1)).partition(" ")
    if scheme.lower() in _SCHEMES:
        yield from _spelt(behind.strip())
    if scheme.lower() == "basic":
        yield from _of_basic(behind.strip())
    pairs = [_PAIR.fullmatch(each) for each in secret.strip().removesuffix(";").split("; ")]
    if all(pairs):
        values = [pair[1].strip('"') for pair in pairs if pair]
        yield from (each for value in values if len(value) >= _LEAST_OF_A_COOKIE for each in _spelt(value))


def _of_basic(credentials: str) -> Iterator[str]:
    try:
        name, colon, password = b64decode(credentials, validate=True).decode().partition(":")
    except ValueError:
        return
    if colon:
        yield from (f"{name}:{password}", password)


def _spelt(secret: str) -> tuple[str, str]:
    return secret, unquote(secret)


def secrets_of_run(number: int) -> SecretValues:
    """Those of the run of that number, for a log that its worker left behind."""
    run = JobRun.objects.filter(pk=number).first()
    if run is None:
        # Nobody reads the log of a run that there is not.
        return NO_SECRETS
    version = JobVersion.objects.filter(job__name=run.job, number=run.version).first()
    # With a job it is forgotten what of it is secret.
    return UNKNOWN_SECRETS if version is None else secrets_given(run, version.settings)
