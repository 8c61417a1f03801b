"""What payloads look like."""

from __future__ import annotations

from hbus_console.access.acts import Act, Role
from hbus_console.registry.declaration import Feature, Mount

SCHEMA_EDIT = Act("schema.edit", Role.EDITOR, "add schemas", about="topic")

FEATURE = Feature(
    name="schemas",
    offers=("checking", "json_schema", "models", "modes", "references", "sample", "services"),
    pages=(Mount("", "hbus_console.schemas.urls"),),
    api=("hbus_console.schemas.api",),
    acts=(SCHEMA_EDIT,),
    audit_words={
        "schema.add": "added a schema to",
    },
)
