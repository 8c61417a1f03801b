"""Events out of files."""

from __future__ import annotations

from hbus_console.registry.declaration import Feature

FEATURE = Feature(
    name="imports",
    audit_words={
        "import.start": "started an import into",
        "import.finish": "finished an import into",
    },
)
