"""What may be called lies outside, whatever Python's own list knows of it."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

import pytest

from hbus_console.public_addresses import INNER_V4, INNER_V6, is_public

# As IANA's two registries of special-purpose addresses have them, and what else is nobody's host.
SPECIAL = [
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
    "192.0.0.0/29", "192.0.0.8/32", "192.0.0.9/32", "192.0.0.10/32", "192.0.0.170/32", "192.0.0.171/32", "192.0.2.0/24",
    "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15",
    "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "255.255.255.255/32",
    "::1/128", "::/128", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64", "2001::/23", "2001::/32", "2001:1::1/128",
    "2001:1::2/128", "2001:1::3/128", "2001:2::/48", "2001:3::/32", "2001:4:112::/48", "2001:10::/28", "2001:20::/28",
    "2001:30::/28", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20", "5f00::/16", "fc00::/7",
    "fe80::/10", "fec0::/10", "ff00::/8",
]  # fmt: skip
METADATA = {
    "most clouds": "169.254.169.254",
    "AWS, of containers": "169.254.170.2",
    "AWS, IPv6": "fd00:ec2::254",
    "Google, IPv6": "fd20:ce::254",
    "Azure": "168.63.129.16",
    "Alibaba": "100.100.100.200",
    "Oracle, older": "192.0.0.192",
    "Tencent": "169.254.0.23",
    "Scaleway, IPv6": "fd00:42::42",
    "OpenStack, IPv6": "fe80::a9fe:a9fe",
    "IBM": "161.26.0.10",
    "IBM, endpoints": "166.9.12.1",
}


def ends(network: str) -> list[str]:
    found = IPv6Network(network) if ":" in network else IPv4Network(network)
    return [str(found[0]), str(found[-1])]


@pytest.mark.parametrize("network", [*SPECIAL, *map(str, INNER_V4), *map(str, INNER_V6)])
def test_a_special_address_is_not_public(network: str) -> None:
    assert [address for address in ends(network) if is_public(address)] == []


@pytest.mark.parametrize("address", METADATA.values(), ids=METADATA.keys())
def test_what_a_cloud_answers_at_inside_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("inner", ["10.0.0.1", "168.63.129.16", "192.0.0.192"])
@pytest.mark.parametrize("carried", ["::ffff:{}", "64:ff9b::{}", "::{}", "64:ff9b:1::{}"])
def test_an_inner_address_within_another_is_not_public(carried: str, inner: str) -> None:
    assert not is_public(carried.format(inner))


@pytest.mark.parametrize(
    "address",
    ["1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "168.63.129.15", "168.63.129.17",
     "172.32.0.0", "192.0.1.0", "192.169.0.0", "198.20.0.0", "223.255.255.255",
     "2001:200::1", "2606:4700::1", "2a00::1", "3ffd::1", "::ffff:1.1.1.1", "64:ff9b::101:101"],
)  # fmt: skip
def test_what_lies_beside_them_is_public(address: str) -> None:
    assert is_public(address)


def test_nothing_is_public_that_python_knows_better() -> None:
    # The first address of each prefix of 16 bits: what a newer Python has in its list, ours lacks.
    some: list[IPv4Address | IPv6Address] = [
        *(IPv4Address(n << 16) for n in range(1 << 16)),
        *(IPv6Address(n << 112) for n in range(1 << 16)),
    ]
    assert [str(each) for each in some if not each.is_global and is_public(str(each))] == []
