"""Whom a bound on an address is for: who has one IPv6 address has all of its network."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address, ip_network

#: What one subscriber has at the least (RFC 6177): any of its addresses for any request.
_ONE_SUBSCRIBER = 64


def origin_of(address: str) -> str:
    """What counts as one: an IPv4 address, however it is written, and an IPv6 network of 64 bits.

    What is no address (a socket of this machine has none) counts as it is.
    """
    try:
        # A scope such as %eth0 is not part of the address.
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ip_network((parsed, _ONE_SUBSCRIBER), strict=False))
