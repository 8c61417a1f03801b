"""A real PostgreSQL for tests, on a socket and a port of its own, from the binaries of the machine."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from pathlib import Path

from tests.installation import free_port

#: Who runs the server where the tests run as root, which PostgreSQL refuses.
_ACCOUNT = "postgres"


def find_binaries() -> Path | None:
    """The folder of ``initdb`` and ``postgres``; the newest of Debian's, else what is on PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parent.parent.name))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).parent if on_path else None


class RealPostgres:
    """Started by :meth:`start`, with a database ``hbus``; :meth:`stop` leaves nothing running."""

    def __init__(self, folder: Path, binaries: Path) -> None:
        self._data = folder / "data"
        self._log = folder / "postgres.log"
        self._binaries = binaries
        self.port = free_port()
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._account = pwd.getpwnam(_ACCOUNT) if os.geteuid() == 0 else None

    @property
    def url(self) -> str:
        return f"postgresql://hbus:word@127.0.0.1:{self.port}/hbus"

    def start(self) -> RealPostgres:
        """Make the cluster and return once it takes connections."""
        if self._account is not None:
            os.chown(self._folder, self._account.pw_uid, self._account.pw_gid)
        password = self._folder / "password"
        password.write_text("word")
        password.chmod(0o644)
        self._run(
            "initdb", "--username=hbus", "--auth=scram-sha-256", f"--pwfile={password}", "--encoding=UTF8",
            "--no-sync", "--pgdata", str(self._data),
        )  # fmt: skip
        # Durability is not what these tests are about; and tables without statistics look worth compiling for.
        # And as many connections as hundreds of tabs of one process may have, each with a thread of its own.
        quick = "-c fsync=off -c synchronous_commit=off -c full_page_writes=off -c jit=off -c max_connections=400"
        options = f"-c listen_addresses=127.0.0.1 -c port={self.port} -c unix_socket_directories= {quick}"
        self._run("pg_ctl", "start", "--wait", "--pgdata", str(self._data), "--log", str(self._log), "-o", options)
        self.create("hbus")
        return self

    def create(self, database: str) -> None:
        """An empty database."""
        self._run("createdb", "--host=127.0.0.1", f"--port={self.port}", "--username=hbus", database)

    def stop(self) -> None:
        self._run("pg_ctl", "stop", "--mode=immediate", "--pgdata", str(self._data))

    def _run(self, name: str, *arguments: str) -> None:
        account = {} if self._account is None else {"user": self._account.pw_uid, "group": self._account.pw_gid}
        done = subprocess.run(
            [str(self._binaries / name), *arguments],
            env={**os.environ, "PGPASSWORD": "word"},
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if name != "pg_ctl" else subprocess.DEVNULL,
            stderr=subprocess.PIPE if name != "pg_ctl" else subprocess.DEVNULL,
            text=True,
            timeout=240,
            check=False,
            **account,  # type: ignore[call-overload]
        )
        if done.returncode:
            log = self._log.read_text(errors="replace") if self._log.exists() else ""
            raise AssertionError(f"{name} failed: {done.stdout} {done.stderr} {log}")
