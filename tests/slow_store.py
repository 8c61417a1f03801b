"""A store that answers late: a proxy that holds back whatever it says."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit


@contextmanager
def slow_store(url: str, late_s: float) -> Iterator[str]:
    """The address of a proxy that holds back whatever the store says for ``late_s``."""
    address = urlsplit(url)
    assert address.hostname is not None
    assert address.port is not None
    store = (address.hostname, address.port)
    sockets: list[socket.socket] = []
    server = socket.create_server(("127.0.0.1", 0))

    def pump(source: socket.socket, target: socket.socket, delay_s: float) -> None:
        try:
            while data := source.recv(65_536):
                time.sleep(delay_s)
                target.sendall(data)
        except OSError:
            # One side has gone; so does the other.
            pass
        source.close()
        target.close()

    def accept() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            upstream = socket.create_connection(store)
            sockets.extend((client, upstream))
            threading.Thread(target=pump, args=(client, upstream, 0.0), daemon=True).start()
            threading.Thread(target=pump, args=(upstream, client, late_s), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield url.replace(f":{address.port}", f":{server.getsockname()[1]}")
    finally:
        server.close()
        for each in sockets:
            each.close()
