"""Whose word about a request's origin is believed: ``X-Forwarded-For`` is text that anybody can send."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_network

from engine.core.errors import ConfigurationError


def trusted_proxies(words: Sequence[str]) -> tuple[str, ...]:
    """Addresses and networks as they are written. Raises ``ConfigurationError`` for ``HBUS_TRUSTED_PROXIES``."""
    for word in words:
        try:
            everybody = ip_network(word).prefixlen == 0
        except ValueError:
            everybody = True
        if everybody:
            raise ConfigurationError(
                f"HBUS_TRUSTED_PROXIES={word} is no address and no network of proxies.",
                remedy="Write 10.0.0.7, or 10.0.0.0/24, with commas between several.",
                field="HBUS_TRUSTED_PROXIES",
            )
    return tuple(words)
