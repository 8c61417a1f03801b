"""A store that takes its time to read its data at its start."""

from __future__ import annotations

import threading

import redis

from hbus_console.supervisor.standalone import StandaloneStore

#: Read in about two seconds; the server looks at its connections after every 1,024 of them.
KEYS = 20_000
_DELAY_US = 100


def start_slowly(store: StandaloneStore) -> threading.Thread:
    """Restart ``store`` with :data:`KEYS` more keys and such a delay; the thread ends once it answers."""
    with redis.Redis.from_url(store.url) as client, client.pipeline(transaction=False) as pipe:
        for number in range(KEYS):
            pipe.set(f"k{number}", "v")
        pipe.execute()
    store.stop()
    with (store.folder / "valkey.conf").open("a", encoding="utf-8") as config:
        config.write(f"key-load-delay {_DELAY_US}\n")
    starting = threading.Thread(target=store.start)
    starting.start()
    return starting
