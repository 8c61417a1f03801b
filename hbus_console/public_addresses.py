"""Which addresses lie outside: what webhooks and jobs may call.

Our own list and not Python's ``is_global``, which differs from patch to patch and knows nothing of clouds. Whole ranges
are refused, also where IANA calls a part of one globally reachable: nobody receives webhooks at an anycast address for
relays and port mappings.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

#: IANA's IPv4 Special-Purpose Address Registry, multicast (RFC 5771), and what clouds answer at inside alone.
INNER_V4 = {
    IPv4Network("0.0.0.0/8"): "this network",
    IPv4Network("10.0.0.0/8"): "private use",
    IPv4Network("100.64.0.0/10"): "shared by carriers, and Alibaba's metadata",
    IPv4Network("127.0.0.0/8"): "loopback",
    IPv4Network("168.63.129.16/32"): "Azure's wire server",
    IPv4Network("169.254.0.0/16"): "link-local, and the metadata of most clouds",
    IPv4Network("172.16.0.0/12"): "private use",
    IPv4Network("192.0.0.0/24"): "protocols of the IETF, and Oracle's older metadata",
    IPv4Network("192.0.2.0/24"): "documentation",
    IPv4Network("192.31.196.0/24"): "AS112",
    IPv4Network("192.52.193.0/24"): "AMT",
    IPv4Network("192.88.99.0/24"): "relays of 6to4",
    IPv4Network("192.168.0.0/16"): "private use",
    IPv4Network("192.175.48.0/24"): "AS112",
    IPv4Network("198.18.0.0/15"): "benchmarks",
    IPv4Network("198.51.100.0/24"): "documentation",
    IPv4Network("203.0.113.0/24"): "documentation",
    IPv4Network("161.26.0.0/16"): "IBM Cloud's services for its own machines",
    IPv4Network("166.8.0.0/14"): "IBM Cloud's services for its own machines",
    IPv4Network("224.0.0.0/4"): "multicast",
    IPv4Network("240.0.0.0/4"): "reserved, and broadcast",
}
#: The same of IANA's IPv6 registry, as far as it lies among what the world's hosts have their addresses of.
INNER_V6 = {
    IPv6Network("2001::/23"): "protocols of the IETF, Teredo among them",
    IPv6Network("2001:db8::/32"): "documentation",
    IPv6Network("2002::/16"): "6to4, which carries an IPv4 address",
    IPv6Network("2620:4f:8000::/48"): "AS112",
    IPv6Network("3ffe::/16"): "the 6bone, given back",
    IPv6Network("3fff::/20"): "documentation",
}
#: All others are inner (fc00::/7, fe80::/10, 5f00::/16, …), not assigned, or carry an IPv4 address.
_UNICAST = IPv6Network("2000::/3")
#: Translated to the IPv4 address in the last 32 bits. That for local use, 64:ff9b:1::/48, is no unicast of the world.
_NAT64 = IPv6Network("64:ff9b::/96")


def is_public(address: str) -> bool:
    """Whether ``address`` lies outside. Raises ``ValueError`` for what is none."""
    # A scope such as %eth0 is not part of the address.
    parsed = ip_address(address.partition("%")[0])
    if isinstance(parsed, IPv6Address):
        carried = IPv4Address(int(parsed) & 0xFFFFFFFF) if parsed in _NAT64 else parsed.ipv4_mapped
        if carried is None:
            return parsed in _UNICAST and not any(parsed in inner for inner in INNER_V6)
        parsed = carried
    return not any(parsed in inner for inner in INNER_V4)
