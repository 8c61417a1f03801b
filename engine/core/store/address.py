"""Where the store is: what an address may say, taken apart once and refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

from redis.connection import Connection, parse_url

from engine.core.errors import ConfigurationError
from engine.core.numbers import whole


class StoreKind(StrEnum):
    """How the store is run."""

    SINGLE = "single"
    SENTINEL = "sentinel"
    CLUSTER = "cluster"


#: More replicas than this nobody waits for.
MOST_REPLICAS = 5

#: Scheme of an address -> how the store is run, and the scheme of one of its servers.
SCHEMES = {
    "redis": (StoreKind.SINGLE, "redis"),
    "rediss": (StoreKind.SINGLE, "rediss"),
    "unix": (StoreKind.SINGLE, "unix"),
    "sentinel": (StoreKind.SENTINEL, "redis"),
    "sentinels": (StoreKind.SENTINEL, "rediss"),
    "cluster": (StoreKind.CLUSTER, "redis"),
    "clusters": (StoreKind.CLUSTER, "rediss"),
}
_FORMS = {
    StoreKind.SINGLE: "Write redis://user:password@host:port/db, with the password percent-encoded.",
    StoreKind.SENTINEL: "Write sentinel://user:password@host:port,host:port/primary-name?db=0 (sentinels:// with TLS).",
    StoreKind.CLUSTER: "Write cluster://user:password@host:port,host:port (clusters:// with TLS).",
}
#: What may stand behind the ? and is no connection's own word.
_OF_POOLS = ("max_connections", "timeout")
#: What names a file there.
_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
SENTINEL_PORT = 26379
REDIS_PORT = 6379

Place = tuple[str, int]


@dataclass(frozen=True)
class StoreAddress:
    """An address taken apart. Shows neither user nor password."""

    kind: StoreKind
    #: One server, the Sentinels, or some nodes of the cluster; empty for a Unix socket.
    places: tuple[Place, ...]
    #: What the Sentinels call the primary.
    primary_name: str = ""
    #: For a connection to a server: redis-py's own words, with neither host nor port.
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    #: A write is confirmed once so many replicas have it; 0: once the primary has it.
    replicas: int = 0
    #: For a connection to a Sentinel.
    sentinel_options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        if not self.places:
            return str(self.options.get("path", ""))
        places = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.places)
        return f"{places}/{self.primary_name}" if self.primary_name else places

    @property
    def database(self) -> int:
        """Number of the database; a cluster has only 0."""
        return int(self.options.get("db", 0))

    @property
    def encrypted(self) -> bool:
        return "SSL" in getattr(self.options.get("connection_class"), "__name__", "")

    def check_files(self, *, field: str = "REDIS_URL") -> None:
        """Raise ``ConfigurationError`` for ``field`` unless what it names of certificates and keys can be read."""
        for word in _FILES:
            path = self.options.get(word)
            try:
                if path:
                    Path(path).open("rb").close()
            except OSError as error:
                raise ConfigurationError(
                    f"{field} names a file that cannot be read: {word}={path} ({error.strerror}).",
                    remedy="Correct the path, or let this user read the file.",
                    field=field,
                ) from None

    @classmethod
    def parse(cls, url: str, *, field: str = "REDIS_URL") -> StoreAddress:
        """Take ``url`` apart. Raises ``ConfigurationError`` for ``field``, which never quotes what it refuses."""
        scheme, found, rest = url.partition("://")
        if not found or scheme not in SCHEMES:
            known = ", ".join(f"{each}://" for each in SCHEMES)
            raise _refused(f"begins with none of {known}", StoreKind.SINGLE, field) from None
        kind, server = SCHEMES[scheme]
        body, _, query = rest.partition("?")
        words = dict(parse_qsl(query, keep_blank_values=True))
        replicas = _replicas(words.pop("replicas", "0"), kind, field)
        if kind is StoreKind.SINGLE:
            if server != "unix" and "," in body.partition("/")[0].rpartition("@")[2]:
                raise ConfigurationError(
                    f"{field} names several hosts, and {scheme}:// is one server.",
                    remedy="Write sentinel://host,host/primary-name for Sentinels, cluster://host,host for a cluster.",
                    field=field,
                )
            return _single(f"{server}://{body}?{urlencode(words)}", replicas, field)
        authority, _, path = body.partition("/")
        user, at, hosts = authority.rpartition("@")
        places = tuple(_place(each, kind, field) for each in hosts.split(","))
        sentinel_words = {name: words.pop(f"sentinel_{name}", "") for name in ("username", "password")}
        options = _options(f"{server}://{user}{at}host?{urlencode(words)}", kind, field)
        options.pop("host", None)
        if kind is StoreKind.CLUSTER:
            if path.strip("/") not in ("", "0") or options.get("db"):
                raise _refused("names a database, and a cluster has only one", kind, field) from None
            options.pop("db", None)
            return cls(kind, places, options=options, replicas=replicas)
        if not path or "/" in path:
            raise _refused("does not say what the Sentinels call the primary", kind, field) from None
        shared = {name: options[name] for name in options if name.startswith("ssl") or name == "connection_class"}
        own = {name: value for name, value in sentinel_words.items() if value}
        return cls(kind, places, path, options, replicas, {**shared, **own})


def _single(url: str, replicas: int, field: str) -> StoreAddress:
    options = _options(url, StoreKind.SINGLE, field)
    if "path" in options:
        return StoreAddress(StoreKind.SINGLE, (), options=options, replicas=replicas)
    place = (str(options.pop("host", "localhost")), int(options.pop("port", REDIS_PORT)))
    return StoreAddress(StoreKind.SINGLE, (place,), options=options, replicas=replicas)


def _options(url: str, kind: StoreKind, field: str) -> dict[str, Any]:
    try:
        options: dict[str, Any] = parse_url(url)  # type: ignore[no-untyped-call]
    except ValueError:
        # Not chained: what cannot be parsed may quote the password.
        raise _refused("is not a Redis URL", kind, field) from None
    own = {name: value for name, value in options.items() if name not in ("connection_class", *_OF_POOLS)}
    try:
        # Connects nothing; refuses a word that it does not know.
        options.get("connection_class", Connection)(**own)
    except (TypeError, ValueError):
        raise _refused("has a word behind its ? that no connection knows", kind, field) from None
    return options


def _replicas(text: str, kind: StoreKind, field: str) -> int:
    number = whole(text)
    if number is None or number > MOST_REPLICAS:
        raise _refused(f"asks for a number of replicas that is none from 0 to {MOST_REPLICAS}", kind, field) from None
    return number


def _place(text: str, kind: StoreKind, field: str) -> Place:
    default = SENTINEL_PORT if kind is StoreKind.SENTINEL else REDIS_PORT
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        port = rest.removeprefix(":")
    else:
        host, _, port = text.partition(":")
    if not host or (port and not 0 < (whole(port) or 0) < 65_536):
        # The place is not quoted: an unencoded password may have ended up in it.
        raise _refused("has a host or a port that is none", kind, field) from None
    return host, int(port or default)


def _refused(why: str, kind: StoreKind, field: str) -> ConfigurationError:
    return ConfigurationError(f"{field} is not an address of a store: it {why}.", remedy=_FORMS[kind], field=field)
