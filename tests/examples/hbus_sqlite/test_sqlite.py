"""The stranger's transport: found by its entry point, small, and safe between processes. The kit itself runs on it in
``tests/engine/bus/conformance/test_plugin.py``."""

from __future__ import annotations

import ast
import io
import os
import subprocess
import sys
import tokenize
import tomllib
from pathlib import Path

from hbus_console.state import ROOT

SOURCE = ROOT / "examples" / "hbus_sqlite"

#: Publishes and reads with nothing but a name of a transport.
_USES_IT = """
import sys
from engine.bus.config import BusConfig
from engine.bus.registry import known_transports, open_transport
from engine.bus.transport import Outgoing, Settlement

assert "sqlite" in known_transports(), known_transports()
transport = open_transport(BusConfig(type="sqlite", url=sys.argv[1]))
transport.admin.create_group("t", "g")
if sys.argv[2] == "publish":
    print(transport.publish("t", [Outgoing("1", b"hello")])[0].status)
else:
    receiver = transport.receiver("t", "g", consumer="c", lease_ms=1000)
    (delivery,) = receiver.receive(10, 5)
    print(delivery.body.decode(), receiver.settle([Settlement(delivery.receipt)]))
"""


def test_it_is_found_by_its_entry_point_and_shared_by_processes(tmp_path: Path) -> None:
    # What an installer writes beside a package, from its own pyproject
    project = tomllib.loads((SOURCE / "pyproject.toml").read_text())["project"]
    written = tmp_path / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    written.mkdir()
    (written / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    points = project["entry-points"]["hbus.transports"]
    lines = "".join(f"{name} = {target}\n" for name, target in points.items())
    (written / "entry_points.txt").write_text(f"[hbus.transports]\n{lines}")

    def run(do: str) -> str:
        path = os.pathsep.join(map(str, (ROOT, SOURCE.parent, tmp_path)))
        command = [sys.executable, "-c", _USES_IT, str(tmp_path / "bus.sqlite"), do]
        done = subprocess.run(
            command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert run("publish") == "ok"
    assert run("read") == "hello [True]"


def test_it_takes_fewer_than_two_hundred_lines() -> None:
    source = (SOURCE / "__init__.py").read_text()
    docstrings = {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False)
        for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    }
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    code = {
        line
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in silent
        for line in range(token.start[0], token.end[0] + 1)
    }
    assert len(code - docstrings) < 200
