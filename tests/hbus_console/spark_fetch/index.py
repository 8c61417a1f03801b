"""A package index on loopback, whose downloads can be held back half-way."""

from __future__ import annotations

import io
import random
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: Of a wheel's one file, in bytes.
SIZE = 3_000_000


def wheel(name: str, version: str) -> bytes:
    """One that cannot be made smaller."""
    record = f"{name}-{version}.dist-info"
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(f"{name}/__init__.py", "")
        archive.writestr(f"{name}/data", random.Random(1).randbytes(SIZE))
        archive.writestr(f"{record}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{record}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{record}/RECORD", "")
    return made.getvalue()


class Index:
    """Offers ``wheels`` by name and version. ``half`` is set once half of a download has been sent, and the rest
    follows when ``rest`` is."""

    def __init__(self) -> None:
        self.wheels: dict[tuple[str, str], bytes] = {}
        self.asked: list[str] = []
        self.half, self.rest = threading.Event(), threading.Event()
        self.rest.set()
        index = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                index.answer(self)

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def url(self, user: str = "") -> str:
        return f"http://{user}{'@' if user else ''}127.0.0.1:{self._server.server_port}/simple/"

    def answer(self, to: BaseHTTPRequestHandler) -> None:
        self.asked.append(to.path)
        *_, folder, name = to.path.rstrip("/").split("/")
        if folder == "simple":
            links = "".join(
                f'<a href="/files/{each}-{version}-py3-none-any.whl">{each}-{version}-py3-none-any.whl</a>'
                for each, version in self.wheels
                if each == name
            )
            self._send(to, f"<!DOCTYPE html><html><body>{links}</body></html>".encode(), "text/html")
            return
        found = self.wheels[tuple(name.split("-")[:2])]  # type: ignore[index]
        self._send(to, found, "application/octet-stream", held=True)

    def _send(self, to: BaseHTTPRequestHandler, body: bytes, kind: str, *, held: bool = False) -> None:
        to.send_response(200)
        to.send_header("Content-Type", kind)
        to.send_header("Content-Length", str(len(body)))
        to.end_headers()
        middle = len(body) // 2 if held else len(body)
        to.wfile.write(body[:middle])
        if held:
            self.half.set()
            self.rest.wait(60)
            to.wfile.write(body[middle:])

    def close(self) -> None:
        self.rest.set()
        self._server.shutdown()
        self._server.server_close()
