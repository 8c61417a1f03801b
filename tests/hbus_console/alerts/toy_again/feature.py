from __future__ import annotations

from hbus_console.registry.declaration import Feature

FEATURE = Feature(name="teapots", alerts=("tests.hbus_console.alerts.toy.alerts:KINDS",))
