"""Addresses that features bring: their order says nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, URLResolver, include, path
from django.urls.resolvers import RegexPattern

from hbus_console.registry.declaration import Mount
from hbus_console.registry.loading import features
from hbus_console.urls import mounted

#: What stands for a part of an address, by the kind of it. A path has a slash, as a message's id may.
SAMPLES = {"String": "some.thing", "Slug": "some-thing", "Int": "7", "Path": "some/thing"}
MOUNTS = [mount for feature in features() for mount in feature.pages]
ENDPOINTS = [module for feature in features() for module in feature.api]
Patterns = Sequence[URLPattern | URLResolver]


def addresses(patterns: Patterns, before: str = "/") -> Iterator[str]:
    """One address for each pattern."""
    for pattern in patterns:
        here = before + str(pattern.pattern)
        for name, converter in pattern.pattern.converters.items():
            kind = type(converter).__name__.removesuffix("Converter")
            begin, _, rest = here.partition("<")
            assert rest.partition(">")[0].endswith(name)
            here = begin + SAMPLES[kind] + rest.partition(">")[2]
        if isinstance(pattern, URLResolver):
            yield from addresses(pattern.url_patterns, here)
        else:
            yield here


def resolver(patterns: Patterns) -> URLResolver:
    return URLResolver(RegexPattern(r"^/"), list(patterns))


def led(patterns: Patterns) -> dict[str, str]:
    """What each address leads to."""
    found = resolver(patterns)
    return {address: str(found.resolve(address)) for address in sorted(addresses(patterns))}


def endpoints(modules: Sequence[str]) -> list[URLResolver]:
    return [path("api/v1/", include(module)) for module in modules]


@pytest.mark.parametrize("turn", [1, 5, 11])
def test_the_order_of_features_changes_no_page(turn: int) -> None:
    usual = led(mounted(MOUNTS))
    turned = MOUNTS[turn:] + MOUNTS[:turn]
    assert len(usual) > 60
    assert led(mounted(turned)) == led(mounted(turned[::-1])) == usual


def test_the_order_of_features_changes_no_endpoint() -> None:
    usual = led(endpoints(ENDPOINTS))
    assert len(usual) > 60
    assert led(endpoints(ENDPOINTS[::-1])) == usual


def page(request: HttpRequest) -> HttpResponse:
    return HttpResponse()


def test_what_is_named_whole_is_asked_before_what_takes_any_name() -> None:
    whole = Mount("", __name__)
    for mounts in ([whole, *MOUNTS], [*MOUNTS, whole]):
        found = resolver(mounted(mounts))
        assert found.resolve("/messages/whole").url_name == "whole"
        assert found.resolve("/messages/other").view_name == "messages:message"


urlpatterns = [path("messages/whole", page, name="whole")]
