"""The first page, what needs a person, and the search box."""

from __future__ import annotations

from hbus_console.registry.declaration import Feature, MenuEntry, Mount

FEATURE = Feature(
    name="overview",
    menu=(MenuEntry("overview", "Overview", "outline/home", "overview:overview", "o", "Bus", 10),),
    pages=(Mount("", "hbus_console.overview.urls"),),
    audit_words={
        "example.start": "started the example",
    },
)
