"""Which parameters of a job are secret: the one answer for its page, its versions, its runs, its sheet and its file.

What any version calls secret is so in all of them: who takes a schema away, or declares late, shows nothing by it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hbus_console.jobs.kinds.known import KINDS
from hbus_console.jobs.kinds.names import WorkName
from hbus_console.jobs.models import JobVersion
from hbus_console.jobs.schema_walk import Schema, calls_none_secret
from hbus_console.jobs.services.work import schema_of
from hbus_console.jobs.showing import MASK, masked, masks_in
from hbus_console.jobs.shown_schema import shown_schema

#: Of what a function that is not here (any more) is given: it alone knew what of that is secret.
_ALL: Schema = {"writeOnly": True}
#: The settings that say what schema there is.
_WORK = ("kind", "target", "parameters_schema")


@dataclass(frozen=True)
class Secrecy:
    """What the versions of a job call secret; what a name tells is so anyway."""

    schemas: tuple[Schema, ...] = ()

    def also(self, settings: Mapping[str, Any]) -> Secrecy:
        """With what these ``settings``, of a version that is not there yet, call so."""
        return replace(self, schemas=(*self.schemas, *_said(settings)))

    def masked(self, parameters: Mapping[str, Any], settings: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """``parameters`` as anybody may see them. ``settings``: of the version that they are of, where it is known."""
        schemas = [*self.schemas, *([_ALL] if settings and _is_unknown(settings) else [])]
        return masked(parameters, *schemas)

    def shown_schema(self, schema: Schema | None) -> dict[str, Any] | None:
        """A ``schema`` of the job as those may see it who may not change that."""
        return None if schema is None else shown_schema(schema, *self.schemas)

    def places(self, parameters: Mapping[str, Any], settings: Mapping[str, Any] | None = None) -> list[str]:
        """Where secrets stand in them: ``auth.password``."""
        return masks_in(self.masked(parameters, settings))

    def still_masked(
        self, typed: Mapping[str, Any], known: Mapping[str, Any], settings: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """``typed`` with a mask for each secret that it leaves out: who types nothing leaves it as it is."""
        hidden = self.masked(known, settings)
        return {**typed, **{name: MASK for name in known if hidden[name] == MASK and name not in typed}}

    def types_one(self, typed: Any, settings: Mapping[str, Any] | None = None) -> bool:
        """Whether a secret stands written out in what somebody ``typed``."""
        return isinstance(typed, Mapping) and not set(self.places(typed, settings)) <= set(masks_in(typed))

    def alike(
        self, typed: Mapping[str, Any], known: Mapping[str, Any], settings: Mapping[str, Any] | None = None
    ) -> bool:
        """Whether the two are the same as they are shown. Secrets are not compared, or the answer confirms a guess."""
        return self.masked(typed, settings) == self.masked(known, settings)


#: Of a job that was deleted: nobody knows any more what of it is secret.
UNKNOWN = Secrecy((_ALL,))


def secrecy_of(name: str) -> Secrecy:
    """That of the job of this name."""
    return secrecies([name])[name]


def secrecies(names: Iterable[str]) -> dict[str, Secrecy]:
    """Those of all of these, asked for together."""
    # By their text: most versions say the same.
    found: dict[str, dict[str, Schema]] = {name: {} for name in names}
    if not found:
        return {}
    # What lies apart from these may be large, and versions many.
    rows = JobVersion.objects.filter(job__name__in=found).order_by()
    for name, *work in rows.values_list("job__name", *(f"settings__{each}" for each in _WORK)).distinct():
        for schema in _said(dict(zip(_WORK, work, strict=True))):
            text = json.dumps(schema, sort_keys=True)
            # A job may have had any number of schemas.
            if not calls_none_secret(schema, text):
                found[name].setdefault(text, schema)
    return {name: Secrecy(tuple(schemas.values())) for name, schemas in found.items()}


def _said(settings: Mapping[str, Any]) -> list[Schema]:
    """The schema of these settings, where they have one: of old versions there may be less than of new ones."""
    if settings.get("kind") not in KINDS:
        return []
    work = {name: settings.get(name) for name in _WORK}
    schema = schema_of({"options": {}, "timeout_s": 0, **work})
    return [] if schema is None else [schema]


def _is_unknown(settings: Mapping[str, Any]) -> bool:
    return settings.get("kind") == WorkName.FUNCTION and not _said(settings)
