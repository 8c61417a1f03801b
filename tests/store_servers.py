"""Stores of more than one server, out of the embedded server's own binary: a Sentinel trio, and a cluster."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import redis

from engine.core.store import slot_of
from hbus_console.supervisor import store

#: How soon the others agree that a primary is away, in milliseconds.
DOWN_AFTER_MS = 1_000
#: How long servers may take to start, agree or fail over, in seconds.
PATIENCE_S = 120.0
SLOTS = 16_384


def until(what: str, holds: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    """Wait for servers that are busy with each other."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        with contextlib.suppress(redis.RedisError):
            if holds():
                return
        time.sleep(0.02)
    raise AssertionError(f"not within {patience_s:g} s: {what}")


class Server:
    """One Valkey process; ``lines`` go into its configuration."""

    def __init__(self, folder: Path, password: str, lines: Iterable[str] = (), *, port: int = 0) -> None:
        self.port = port or store.free_port()
        self._config = store.write_config(folder, port=self.port, password=password, fsync="everysec")
        with self._config.open("a", encoding="utf-8") as config:
            config.writelines(f"{line}\n" for line in (f"masterauth {password}", "repl-diskless-sync-delay 0", *lines))
        self._arguments = [str(store.find_binary()), str(self._config)]
        self.client = redis.Redis(port=self.port, password=password, socket_timeout=5)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Server:
        self.process = _run(self._arguments)
        until(f"{self.port} answers", self.client.ping)
        return self

    def kill(self) -> None:
        """SIGKILL: what a crash would do."""
        self.client.close()
        _kill(self.process)

    def freeze(self) -> None:
        """It stands still and its connections stay open, as with a network that swallows everything."""
        assert self.process
        os.kill(self.process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        assert self.process
        os.kill(self.process.pid, signal.SIGCONT)

    @property
    def is_primary(self) -> bool:
        return bool(self.client.role()[0] == b"master")

    def follows(self) -> bool:
        """Whether it is a replica that has all its primary had."""
        role = self.client.role()
        return bool(role[0] == b"slave" and role[3] == b"connected")


class SentinelTrio:
    """A primary, two replicas, and three Sentinels that watch them."""

    name = "hbus-test"

    def __init__(self, folder: Path, *, lines: Iterable[str] = ()) -> None:
        self.password = secrets.token_hex(8)
        self.sentinel_password = secrets.token_hex(8)
        first = Server(folder / "0", self.password, lines)
        following = (f"replicaof 127.0.0.1 {first.port}", *lines)
        self.servers = [first, *(Server(folder / str(number), self.password, following) for number in (1, 2))]
        self.sentinels = [store.free_port() for _ in range(3)]
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self.url = self.naming(0, 1, 2)

    def start(self) -> SentinelTrio:
        for server in self.servers:
            server.start()
        for server in self.servers[1:]:
            until("a replica follows", server.follows)
        for port in self.sentinels:
            self._processes.append(_run([str(store.find_binary()), str(self._sentinel(port)), "--sentinel"]))
        until("the Sentinels know each other", lambda: all(self._knows(port) for port in self.sentinels))
        return self

    @property
    def primary(self) -> Server:
        return next(server for server in self.servers if _is_primary(server))

    def kill_primary(self) -> Server:
        killed = self.primary
        killed.kill()
        return killed

    def await_other_than(self, killed: Server) -> None:
        until("another is primary", lambda: any(_is_primary(each) for each in self.servers if each is not killed))

    def freeze_sentinels(self, *numbers: int) -> None:
        """Those of these numbers fall silent, as behind a cut; their connections stay open."""
        for number in numbers:
            self._processes[number].send_signal(signal.SIGSTOP)

    def thaw_sentinels(self, *numbers: int) -> None:
        for number in numbers:
            self._processes[number].send_signal(signal.SIGCONT)

    def kill_sentinel(self, number: int) -> None:
        _kill(self._processes[number])

    def restart_sentinel(self, number: int) -> None:
        """On what it knew when it was killed."""
        port = self.sentinels[number]
        config = self._folder / f"sentinel-{port}" / "sentinel.conf"
        self._processes[number] = _run([str(store.find_binary()), str(config), "--sentinel"])
        until("the Sentinel knows the others", lambda: self._knows(port))

    def naming(self, *numbers: int) -> str:
        """An address that names only these of the Sentinels."""
        places = ",".join(f"127.0.0.1:{self.sentinels[number]}" for number in numbers)
        return f"sentinel://:{self.password}@{places}/{self.name}?db=0&sentinel_password={self.sentinel_password}"

    def stop(self) -> None:
        for process in self._processes:
            _kill(process)
        for server in self.servers:
            server.kill()

    def _sentinel(self, port: int) -> Path:
        folder = self._folder / f"sentinel-{port}"
        folder.mkdir(parents=True)
        config = folder / "sentinel.conf"
        config.write_text(
            f"port {port}\nbind 127.0.0.1\ndir {folder}\nlogfile {folder}/log\nrequirepass {self.sentinel_password}\n"
            f"sentinel sentinel-pass {self.sentinel_password}\n"
            f"sentinel monitor {self.name} 127.0.0.1 {self.servers[0].port} 2\n"
            f"sentinel auth-pass {self.name} {self.password}\n"
            f"sentinel down-after-milliseconds {self.name} {DOWN_AFTER_MS}\n"
            f"sentinel failover-timeout {self.name} 5000\n",
            encoding="utf-8",
        )
        return config

    def _knows(self, port: int) -> bool:
        client = redis.Redis(port=port, password=self.sentinel_password, socket_timeout=2)
        try:
            state = client.sentinel_master(self.name)
            return int(state["num-other-sentinels"]) == 2 and int(state["num-slaves"]) == 2
        finally:
            client.close()


class StoreCluster:
    """Three primaries, each with a third of the slots and a replica."""

    def __init__(self, folder: Path, *, lines: Iterable[str] = ()) -> None:
        self.password = secrets.token_hex(8)
        more = (
            "cluster-enabled yes",
            f"cluster-node-timeout {DOWN_AFTER_MS}",
            "cluster-replica-validity-factor 0",
            *lines,
        )
        self.servers = [Server(folder / str(number), self.password, more, port=port_with_bus()) for number in range(6)]
        places = ",".join(f"127.0.0.1:{server.port}" for server in self.servers[:3])
        self.url = f"cluster://:{self.password}@{places}"

    def start(self) -> StoreCluster:
        for server in self.servers:
            server.start()
        primaries, replicas = self.servers[:3], self.servers[3:]
        share = SLOTS // 3
        for number, server in enumerate(primaries):
            end = SLOTS if number == 2 else (number + 1) * share
            # Not as a range: the oldest Redis that is promised knows none.
            server.client.execute_command("CLUSTER", "ADDSLOTS", *range(number * share, end))
        until("all have met", self._met)
        for server, primary in zip(replicas, primaries, strict=True):
            name = primary.client.execute_command("CLUSTER", "MYID").decode()
            until("it may follow", lambda server=server, name=name: _replicate(server, name))
        until("the cluster is whole", self._whole)
        for server in replicas:
            until("a replica follows", server.follows)
        until("all see the replicas", lambda: all(_replicas(server) == 3 for server in self.servers))
        return self

    def primary_of(self, key: str) -> Server:
        """The server that has ``key`` now, as a living one sees it."""
        slot = slot_of(key)
        for server in self.servers:
            with contextlib.suppress(redis.RedisError):
                for first, last, *nodes in cluster_says(server, "SLOTS"):
                    if first <= slot <= last:
                        return next(each for each in self.servers if each.port == nodes[0][1])
        raise AssertionError("no server answers")

    def kill_primary_of(self, key: str) -> Server:
        killed = self.primary_of(key)
        killed.kill()
        return killed

    def restart(self) -> None:
        """All at once, as a power cut would, on what they kept."""
        self.stop()
        for server in self.servers:
            server.start()
        until("the cluster is whole", self._whole)

    def stop(self) -> None:
        for server in self.servers:
            server.kill()

    def _met(self) -> bool:
        """Introduce those that do not know each other; a busy machine lets the first introduction time out."""
        strangers = [server for server in self.servers if _cluster_info(server)["cluster_known_nodes"] != "6"]
        for server in strangers:
            for other in self.servers:
                if other is not server:
                    server.client.execute_command("CLUSTER", "MEET", "127.0.0.1", other.port)
        if strangers:
            time.sleep(0.2)
        return not strangers

    def _whole(self) -> bool:
        return all(_cluster_info(server)["cluster_state"] == "ok" for server in self.servers)


def port_with_bus() -> int:
    """A free port whose nodes may speak to each other 10,000 above it."""
    while True:
        port = store.free_port()
        if store.is_free(port + 10_000):
            return port


def cluster_says(server: Server, what: str) -> Any:
    """The server's own words: redis-py's client makes something else of each of them."""
    pool = server.client.connection_pool
    connection = pool.get_connection()
    try:
        connection.send_command("CLUSTER", what)
        return connection.read_response()
    finally:
        pool.release(connection)


def _replicas(server: Server) -> int:
    return sum(len(nodes) - 1 for _, _, *nodes in cluster_says(server, "SLOTS"))


def _cluster_info(server: Server) -> dict[str, str]:
    return dict(line.split(":", 1) for line in cluster_says(server, "INFO").decode().split())


def _replicate(server: Server, name: str) -> bool:
    server.client.execute_command("CLUSTER", "REPLICATE", name)
    return True


def _is_primary(server: Server) -> bool:
    try:
        return server.is_primary
    except redis.RedisError:
        return False


def _run(arguments: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _kill(process: subprocess.Popen[bytes] | None) -> None:
    if process is not None:
        process.kill()
        process.wait()
