"""One installation: where its state lies, where it listens and which store it stands on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from engine.core.env import Env
from engine.core.errors import ConfigurationError
from hbus_console import remembered
from hbus_console.state import state_dir
from hbus_console.supervisor import nsqd, store


@dataclass(frozen=True)
class Installation:
    """What the supervisor and its roles need to know of their surroundings."""

    state: Path
    bind: str
    port: int
    prefix: str
    #: Host name to send with the probe of the web role: the first one it accepts.
    host: str
    #: REDIS_URL of the operator's own store; empty: the embedded one.
    external_store: str
    #: Port of the embedded store; 0 with an external one.
    store_port: int
    #: When the embedded store's writes reach the disk; see :func:`store.write_config`.
    store_fsync: str = "always"
    #: TCP and HTTP port of the embedded nsqd; zeros where there is none.
    nsqd_ports: tuple[int, int] = (0, 0)

    @classmethod
    def from_settings(cls, *, starting_store: bool = False, starting_nsqd: bool = False) -> Installation:
        """As the environment says; whoever is about to start an embedded store or nsqd has its ports chosen here."""
        # The supervisor has one of these, and no Django.
        from django.conf import settings

        external = Env().text("REDIS_URL")
        state = state_dir()
        port = store.choose_port(state) if starting_store else remembered.store_port(state) or 0
        allowed = settings.ALLOWED_HOSTS[0].lstrip(".") if settings.ALLOWED_HOSTS else "localhost"
        return cls(
            state=state,
            bind=settings.BIND,
            port=settings.PORT,
            prefix=settings.HBUS_PREFIX,
            host="localhost" if allowed == "*" else allowed,
            external_store=external,
            store_port=0 if external else port,
            store_fsync=_fsync(),
            nsqd_ports=nsqd.choose_ports(state) if starting_nsqd else remembered.nsqd_ports(state) or (0, 0),
        )

    @property
    def store_url(self) -> str:
        """REDIS_URL for the roles."""
        return self.external_store or remembered.store_url(self.state)

    @property
    def console_url(self) -> str:
        """What a person types into a browser on this machine."""
        reachable = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - names of addresses, nothing is bound here
        host = reachable.get(self.bind, f"[{self.bind}]" if ":" in self.bind else self.bind)
        return f"http://{host}:{self.port}"


def shown(url: str) -> str:
    """Where a URL leads, without user and password; one of Sentinels or of a cluster leads to several places."""
    parts = urlsplit(url)
    if parts.scheme in {"unix", "sqlite", ""}:
        return parts.path
    places = parts.netloc.rpartition("@")[2].split(",")
    named = ",".join(_with_port(place, parts.scheme) for place in places)
    return f"{named}{parts.path if parts.path not in ('/', '/0') else ''}"


def _with_port(place: str, scheme: str) -> str:
    usual = 26379 if scheme.startswith("sentinel") else 6379
    has_port = not place.endswith("]") and ":" in place.rpartition("]")[2]
    return place if has_port else f"{place or 'localhost'}:{usual}"


def _fsync() -> str:
    word = Env().text("HBUS_STORE_FSYNC", "always")
    if word not in ("always", "everysec"):
        raise ConfigurationError(
            f"HBUS_STORE_FSYNC={word} is not known.",
            remedy="Use always (what was confirmed is on disk) or everysec (faster single writes).",
            field="HBUS_STORE_FSYNC",
        )
    return word
