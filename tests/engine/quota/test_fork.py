"""A process that forks after its node was started: the child is another node, with a thread and sockets of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from engine.core.store import open_client
from engine.quota import Book, Rule
from engine.quota.planes.redis import RedisControlPlane

BURST = 1e9
#: Prepays, forks with eight threads at the limiter, and spends all there is in both; each says what it had.
PROGRAM = """
import json, os, sys, threading, time
from engine.core.store import open_client
from engine.quota import QuotaNode
from engine.quota.planes.redis import RedisControlPlane

url, prefix = sys.argv[1:]
client = open_client(url)
node = QuotaNode("parent", RedisControlPlane(client, prefix))
node.start()
limiter = node.limiter("api", "search", "t")
counts = [0] * 8
going = True

def spend(number):
    while going:
        counts[number] += limiter.allow()

def until(truth):
    ends = time.monotonic() + 60
    while not truth() and time.monotonic() < ends:
        time.sleep(0.001)

threads = [threading.Thread(target=spend, args=(number,), daemon=True) for number in range(8)]
for thread in threads:
    thread.start()
until(lambda: sum(counts) > 2_000)
read, write = os.pipe()
child = os.fork()
if child == 0:
    held = limiter.status()
    had, begun = 0, time.monotonic()
    while had < 500 and time.monotonic() < begun + 60:
        had += limiter.allow()
    told = {
        "node": node.node, "left": held.left, "permit": held.permit, "had": had, "same": node.limiter(
        "api", "search", "t") is limiter, "thread": node._thread is not None and node._thread.is_alive(),
        "mine": client.client_id(),
    }
    os.write(write, json.dumps(told).encode())
    os._exit(0)
until(lambda: sum(counts) > 20_000)
os.waitpid(child, 0)
going = False
for thread in threads:
    thread.join()
told = json.loads(os.read(read, 65_536))
node.stop()
print(json.dumps({"child": told, "had": sum(counts), "node": node.node, "mine": client.client_id()}))
"""


@pytest.mark.filterwarnings("ignore")
def test_a_child_is_a_node_of_its_own(redis_url: str, prefix: str) -> None:
    moments = iter([1e6])
    client = open_client(redis_url)
    plane = RedisControlPlane(client, prefix, now=lambda: next(moments))
    plane.keep_rules(*Book(version=1, rules=(Rule(id="all", limit=10.0, burst=BURST),)).kept())
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, redis_url, prefix],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    told: dict[str, Any] = json.loads(ended.stdout)
    child = told["child"]
    # Nothing of the parent's permit is spent by the child, and it has tokens all the same.
    assert (child["left"], child["permit"], child["had"], child["same"], child["thread"]) == (0, "", 500, True, True)
    assert told["node"] == "parent"
    assert child["node"].startswith("parent~")
    assert child["mine"] != told["mine"]
    bucket = client.hgetall(f"{prefix}:{{quota}}:bucket:all/t")
    nodes = client.zrange(f"{prefix}:{{quota}}:nodes:all/t", 0, -1)
    assert sorted(each.decode() for each in nodes) == ["parent", child["node"]]
    # What the child died with is lost.
    left = float(bucket[b"tokens"])
    assert BURST + 10 * 60 - left >= told["had"] + child["had"]
