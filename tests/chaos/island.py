"""A network of its own for some processes of a test, and one wire between it and this machine's, which can be cut.

Where it is cut, packets vanish without a word, as behind a switch that is broken: nothing is closed, refused or known
to be unreachable. Files, and so a database of SQLite, are where they were.
"""

from __future__ import annotations

import ipaddress
import secrets
import subprocess
import sys
from contextlib import suppress

#: Set aside for tests of networks (RFC 2544): four addresses of it for each wire.
_ADDRESSES = ipaddress.ip_network("198.18.0.0/15")
#: Inside. Outside each wire has a name that nobody else uses.
_INSIDE = "wire"
#: Whoever is to be reached there is nobody's address: what is sent is on the wire, and nobody takes it.
_NOBODY = "02:00:00:00:00:01"
#: How long a connection may take on one machine, in seconds.
_PATIENCE_S = 1.5
_CONNECT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=float(sys.argv[3])).close()
except OSError as error:
    print(type(error).__name__)
"""


class NoIsland(Exception):
    """This machine, or who runs the test, cannot have one: the words say why."""


class Island:
    """Linux alone, and for root. Use :meth:`end` whatever happens.

    The network has no name. It is there as long as a process is in it; the first of them ends with this one, however
    this one ends: nothing is left to be cleaned up by the next run.
    """

    def __init__(self) -> None:
        wire = _ADDRESSES.network_address + 4 * secrets.randbelow(_ADDRESSES.num_addresses // 4)
        #: This machine's address on the wire, which servers are to listen on, and the address inside.
        self.outside, self._inside = str(wire + 1), str(wire + 2)
        self._wire = f"hb{secrets.token_hex(5)}"
        try:
            self._holder = subprocess.Popen(
                ["unshare", "--net", "sh", "-c", "echo made; exec cat"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        except FileNotFoundError as error:
            raise NoIsland("unshare is not installed") from error
        try:
            self._lay_the_wire()
        except NoIsland:
            self.end()
            raise

    def _lay_the_wire(self) -> None:
        assert self._holder.stdout is not None
        assert self._holder.stderr is not None
        if self._holder.stdout.readline() != "made\n":
            raise NoIsland(self._holder.stderr.read().strip())
        #: Before a command that is to run inside. Its process keeps its number.
        self.inside = ("nsenter", "--target", str(self._holder.pid), "--net", "--")
        peer = ("peer", "name", _INSIDE, "netns", str(self._holder.pid))
        _run("ip", "link", "add", self._wire, "type", "veth", *peer)
        _run("ip", "address", "add", f"{self.outside}/30", "dev", self._wire)
        _run("ip", "link", "set", self._wire, "up")
        _run(*self.inside, "ip", "address", "add", f"{self._inside}/30", "dev", _INSIDE)
        _run(*self.inside, "ip", "link", "set", _INSIDE, "up")
        _run(*self.inside, "ip", "link", "set", "lo", "up")

    def cut(self, *, answers_alone: bool = False) -> None:
        """Nothing comes through any more, or nothing from outside: what is asked arrives, and the answers do not."""
        if not answers_alone:
            _run(*self.inside, "ip", *_neighbour("replace", self.outside, _INSIDE))
        _run("ip", *_neighbour("replace", self._inside, self._wire))

    def heal(self) -> None:
        """As it was; nothing where it is whole."""
        with suppress(NoIsland):
            _run(*self.inside, "ip", *_neighbour("del", self.outside, _INSIDE))
        with suppress(NoIsland):
            _run("ip", *_neighbour("del", self._inside, self._wire))

    def met(self, port: int) -> str:
        """What a connection from inside to ``port`` outside meets: nothing, or the name of the error."""
        asked = (sys.executable, "-I", "-S", "-c", _CONNECT, self.outside, str(port), str(_PATIENCE_S))
        return _run(*self.inside, *asked).strip()

    def end(self) -> None:
        """Once what runs inside has ended: the network goes, and the wire with it."""
        self._holder.kill()
        self._holder.communicate()


def _neighbour(act: str, address: str, device: str) -> tuple[str, ...]:
    known = ("lladdr", _NOBODY, "nud", "permanent") if act == "replace" else ()
    return ("neighbour", act, address, *known, "dev", device)


def _run(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise NoIsland(f"{command[0]} is not installed") from error
    if done.returncode:
        raise NoIsland(f"{' '.join(command)} said: {done.stderr.strip()}")
    return done.stdout
