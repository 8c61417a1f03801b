"""Certificates of a test's own, and TLS in front of a server that has none: the embedded one is built without."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

#: How the first byte of a connection shows that TLS begins.
_HANDSHAKE = b"\x16"


@dataclass(frozen=True)
class Certificate:
    """A certificate that signs itself, so that its file is also the authority to trust; and its key."""

    path: Path
    key: Path


def certificate(folder: Path, *, name: str = "IP:127.0.0.1", days: int = 2) -> Certificate:
    """One for ``name``, made with the ``openssl`` that comes with every system's own certificates."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Certificate(folder / "cert.pem", folder / "key.pem")
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    subject = ("-subj", "/CN=hbus test", "-addext", f"subjectAltName={name}", "-days", str(days))
    files = ("-keyout", str(made.key), "-out", str(made.path))
    subprocess.run(["openssl", "req", "-x509", *curve, *subject, *files], check=True, capture_output=True)
    return made


class TlsProxy:
    """Takes TLS on a port of its own and hands what comes on to ``target`` in clear.

    Who speaks in clear is heard too, unless ``strict``: a Sentinel watches at the address that it gives to clients.
    ``clients`` is the authority whose certificate a client must show.
    """

    def __init__(
        self, target: int, shown: Certificate, *, strict: bool = True, clients: Certificate | None = None
    ) -> None:
        self._target = target
        self._strict = strict
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(shown.path, shown.key)
        if clients is not None:
            self._context.load_verify_locations(clients.path)
            self._context.verify_mode = ssl.CERT_REQUIRED
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        #: How many connections were encrypted.
        self.encrypted = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            stack.enter_context(client)
            heard = client
            if self._strict or client.recv(1, socket.MSG_PEEK) == _HANDSHAKE:
                heard = stack.enter_context(self._encrypted(client))
                self.encrypted += 1
            _exchange(heard, stack.enter_context(socket.create_connection(("127.0.0.1", self._target))))

    def _encrypted(self, client: socket.socket) -> ssl.SSLSocket:
        kept = client.dup()
        try:
            return self._context.wrap_socket(client, server_side=True)
        except ssl.SSLError:
            # The client is told why. It must be able to read that, so who ends the connection is the client.
            while kept.recv(65_536):
                pass
            raise
        finally:
            kept.close()


def _exchange(client: socket.socket, store: socket.socket) -> None:
    while True:
        # What TLS has read ahead is in no kernel buffer, so select does not know of it.
        waiting = isinstance(client, ssl.SSLSocket) and client.pending()
        ready = [client] if waiting else select.select([client, store], [], [])[0]
        for each in ready:
            data = each.recv(65_536)
            if not data:
                return
            (store if each is client else client).sendall(data)
