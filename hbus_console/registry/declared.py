"""Whether what the apps of HBUS_APPS declare leads somewhere. Loads all of it: for a start and a check, for no role."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from importlib.util import find_spec

from hbus_console.installed import OURS, loading
from hbus_console.registry.loading import by_app, feature_file, resolve


def check_declared() -> None:
    """Resolve every path that an app of ``HBUS_APPS`` declares; else it fails where it is first used, in some role.

    Needs Django set up. Raises ``ConfigurationError`` for the first that leads nowhere.
    """
    for app, feature in by_app():
        if app in OURS:
            continue
        for name, path in _paths(feature):
            what = f"What the feature of the app {app!r} declares in {name}, {path!r},"
            with loading(app, what, _file(path) or feature_file(app)):
                resolve(path)


def _paths(declared: object, within: str = "") -> Iterator[tuple[str, str]]:
    """The name of a field, such as ``roles.run``, and a path in it."""
    if not is_dataclass(declared):
        return
    for each in fields(declared):
        value, name = getattr(declared, each.name), f"{within}{each.name}"
        inner: tuple[object, ...] = (value,) if value else ()
        if isinstance(value, Mapping):
            inner = tuple(value.values())
        elif isinstance(value, tuple):
            inner = value
        for one in inner:
            # A declaration says by its type which of its texts are paths.
            if isinstance(one, str) and ("Dotted" in str(each.type) or "Module" in str(each.type)):
                yield name, one
            else:
                yield from _paths(one, f"{name}.")


def _file(path: str) -> str:
    """Of the module that ``path`` names; empty when there is none."""
    # Its package is foreign code, and says itself what is wrong with it when it is loaded.
    with suppress(Exception, SystemExit):
        spec = find_spec(path.partition(":")[0])
        return (spec and spec.origin) or ""
    return ""
