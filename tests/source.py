"""The repository's own text, as its laws read it."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from hbus_console.state import ROOT


@cache
def files() -> tuple[Path, ...]:
    """What the repository holds, or would with the next commit."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return tuple(path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file())


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def python(*folders: str) -> Iterator[tuple[Path, ast.Module]]:
    for path in files():
        if path.suffix == ".py" and named(path).startswith(folders) and "migrations" not in path.parts:
            yield path, tree(path)


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))
