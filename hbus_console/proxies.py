"""Whose word about a request's origin is believed: ``X-Forwarded-For`` is text that anybody can send."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address, ip_network

from engine.core.errors import ConfigurationError


def trusted_proxies(words: Sequence[str]) -> tuple[str, ...]:
    """Addresses and networks as they are written. Raises ``ConfigurationError`` for ``HBUS_TRUSTED_PROXIES``."""
    for word in words:
        try:
            network = ip_network(word)
            # Two halves of all addresses are all of them, too.
            everybody = network.prefixlen < (8 if network.version == 4 else 16)
        except ValueError:
            everybody = True
        if everybody:
            raise ConfigurationError(
                f"HBUS_TRUSTED_PROXIES={word} is no address and no network of proxies.",
                remedy="Write 10.0.0.7, or 10.0.0.0/24, with commas between several.",
                field="HBUS_TRUSTED_PROXIES",
            )
    return tuple(words)


def stands_on(address: str, proxies: Sequence[str]) -> bool:
    """Whether a proxy of these has that address."""
    return any(ip_address(address) in ip_network(each, strict=False) for each in proxies)
