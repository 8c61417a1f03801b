"""What the payloads of a topic were held to when they were published, for an audit: schemas by their versions.

What the topic masks is not looked at: how many break a rule in it would tell what is in it. So a payload is judged with
stand-ins in its place, and any rule that depends on one is taken for kept.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from engine.core.strict_json import NotJson, read_json
from engine.pipeline.audit.fitting import StoredPayload
from hbus_console.schemas.checking import Place, check_of
from hbus_console.schemas.json_schema import CompiledSchema
from hbus_console.schemas.models import SchemaVersion
from hbus_console.topics.catalog import OLD_RULES_MS
from hbus_console.topics.field_paths import FieldPath
from hbus_console.topics.masking import masked, outermost, stand_in_places
from hbus_console.topics.models import Topic
from hbus_console.topics.payloads import MaskingRules
from hbus_console.ui.formats import epoch_ms

#: Of how it is judged here; another number has everything judged anew.
_FORM = 1


class _Version:
    """One of a topic's schemas."""

    def __init__(self, row: SchemaVersion) -> None:
        self._row = row
        self.number, self.uri = row.version, row.uri
        self.since_ms = epoch_ms(row.created_at)
        #: It never changes, so this tells all of it.
        self.named = (row.pk, row.version, self.since_ms)

    @cached_property
    def schema(self) -> CompiledSchema | None:
        """``None`` for one that no longer compiles, which the log says: nobody is accused by it."""
        check = check_of(self._row)
        return check if isinstance(check, CompiledSchema) else None


class SchemasOfTopic:
    """:class:`~engine.pipeline.audit.fitting.PayloadRules` of one topic, as it stands in the database."""

    def __init__(self, topic: Topic) -> None:
        self._masking = MaskingRules.of(topic)
        #: What was stored before lay in another topic of the name, which may have masked more.
        self._created_ms = epoch_ms(topic.created_at)
        self._fields = outermost(self._masking.masked_fields)
        self._versions = [_Version(row) for row in sorted(topic.schemas.all(), key=lambda row: row.version)]
        #: By what a message says in ``dataschema``.
        self._by_uri = {each.uri: each for each in self._versions}

    def digest(self, until_ms: int) -> str:
        versions = [each.named for each in self._versions if each.since_ms <= until_ms + OLD_RULES_MS]
        if not versions or until_ms < self._created_ms:
            return ""
        rules = self._masking
        hidden = [sorted(rules.masked_fields), rules.classification, rules.opaque_hidden]
        return hashlib.sha256(json.dumps([_FORM, self._created_ms, versions, hidden]).encode()).hexdigest()

    def fault(self, payload: StoredPayload) -> str:
        says = ""
        for version in self._held_to(payload):
            says = self._fault(version, payload)
            if not says:
                return ""
        return says

    def _held_to(self, payload: StoredPayload) -> Sequence[_Version]:
        """Any of these it may have been judged by: whoever publishes knows a version for a while longer, or not yet."""
        if payload.stored_ms < self._created_ms:
            return []
        named = self._by_uri.get(payload.dataschema)
        if named is not None and named.since_ms <= payload.stored_ms + OLD_RULES_MS:
            return [named]
        early, late = payload.made_ms - OLD_RULES_MS, payload.made_ms + OLD_RULES_MS
        if not self._versions or self._versions[0].since_ms > early:
            # There was none, or not for everybody.
            return []
        until = [each.since_ms for each in self._versions[1:]] + [late + 1]
        return [it for it, end_ms in zip(self._versions, until, strict=True) if it.since_ms <= late and end_ms > early]

    def _fault(self, version: _Version, payload: StoredPayload) -> str:
        as_said = f"as version {version.number} of the schema says"
        if payload.is_binary:
            return f"the payload is no JSON, {as_said}"
        if payload.json is None:
            return f"there is no payload, {as_said}"
        text = payload.json.encode(errors="replace")
        try:
            value = read_json(text)
        except NotJson:
            return f"the payload is no JSON that can be read, {as_said}"
        if version.schema is None or (self._masking.hide_something and self._masking.hide_whole(value, text)):
            return ""
        value, places = self._shown(value)
        found = version.schema.problem(value)
        if found is not None and places:
            # One that takes too long to say of which rules it breaks may break those alone that hang on what is hidden.
            found = version.schema.problem_beside(value, places) if version.schema.tells(value) else None
        return f"{found[1]}, {as_said}" if found is not None else ""

    def _shown(self, value: Any) -> tuple[Any, Sequence[Place]]:
        """With stand-ins for what is masked, and where these stand."""
        # What judges it takes plain texts alone.
        stand_in = str(masked(self._masking.classification))
        for field in self._masking.masked_fields:
            value = FieldPath.parse(field).replaced(value, stand_in)
        return value, [place for names in self._fields for place in stand_in_places(value, names, stand_in)]
