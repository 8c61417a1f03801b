"""What all pages share."""

from __future__ import annotations

from hbus_console.registry.declaration import Feature, Mount

FEATURE = Feature(
    name="ui",
    pages=(Mount("", "hbus_console.ui.urls"),),
)
