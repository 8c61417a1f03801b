"""The addresses that features bring, and the names that lead to them. Loads every page: for a start and a check."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from django.urls import URLPattern, URLResolver

from hbus_console.registry.declaration import Feature, Module
from hbus_console.registry.loading import resolve
from hbus_console.registry.names import Named

Patterns = Sequence[URLPattern | URLResolver]


def _patterns(modules: Mapping[Module, str]) -> Iterator[tuple[str, URLPattern]]:
    """Each pattern of ``modules``, which stand behind prefixes, with its address from the root."""
    for module, prefix in modules.items():
        yield from _inner(resolve(module).urlpatterns, prefix)


def _inner(patterns: Patterns, prefix: str) -> Iterator[tuple[str, URLPattern]]:
    for pattern in patterns:
        here = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from _inner(pattern.url_patterns, here)
        else:
            yield _converted(here, pattern), pattern


def _converted(address: str, pattern: URLPattern) -> str:
    """The address without what it calls its parts: ``topics/<str:name>/`` and ``topics/<str:topic>/`` are one."""
    for name in pattern.pattern.converters:
        address = address.replace(f":{name}>", ">").replace(f"<{name}>", "<str>")
    return address


def _pages(feature: Feature) -> Iterable[tuple[str, URLPattern]]:
    return _patterns({mount.urls: f"/{mount.prefix}" for mount in feature.pages})


def _endpoints(feature: Feature) -> Iterable[tuple[str, URLPattern]]:
    return _patterns(dict.fromkeys(feature.api, "/api/v1/"))


def _once(names: Iterable[str]) -> Iterable[tuple[str, str]]:
    """A feature may give one name to several addresses of its own, told apart by their parts."""
    return [(name, name) for name in dict.fromkeys(names) if name]


ROUTES: tuple[Named[object], ...] = (
    Named("the address", "pages", lambda it: dict(_pages(it)).items()),
    Named("the endpoint", "api", lambda it: dict(_endpoints(it)).items()),
    Named("pages named", "pages", lambda it: _once(getattr(resolve(mount.urls), "app_name", "") for mount in it.pages)),
    Named("an endpoint named", "api", lambda it: _once(pattern.name or "" for _, pattern in _endpoints(it))),
)
