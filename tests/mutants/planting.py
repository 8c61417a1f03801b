"""Plants a fault into a copy of the house and runs what should notice it there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.mutant import Mutant

ROOT = Path(__file__).parents[2]
#: What a test run of one mutant may take, in seconds.
LONGEST_S = 900.0
_BLAMED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant."""

    mutant: Mutant
    #: The test that noticed it; empty: it survived, or could not be tried.
    caught_by: str
    took_s: float
    #: Why it counts as not caught, in a few words.
    trouble: str = ""


def mutated(mutant: Mutant, text: str) -> str:
    """``text`` with the fault in it; raises ``ValueError`` where it has no single place in it."""
    if text.count(mutant.before) != 1:
        raise ValueError(f"{mutant.name}: its place occurs {text.count(mutant.before)} times in {mutant.file}")
    return text.replace(mutant.before, mutant.after)


class Nursery:
    """A copy of the files that git knows, as they are in the work tree now."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for name in listed.split("\0"):
            if name and (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        for shared in ("node_modules", "var/bin"):
            if (ROOT / shared).exists():
                (folder / shared).parent.mkdir(parents=True, exist_ok=True)
                (folder / shared).symlink_to(ROOT / shared)

    def try_out(self, mutant: Mutant) -> Verdict:
        """Plant it, run the nearest tests up to the first that fails, and see that test pass without it."""
        path, begun = self._folder / mutant.file, time.monotonic()
        sound = path.read_text(encoding="utf-8")
        path.write_text(mutated(mutant, sound), encoding="utf-8")
        try:
            ended, said = self._run(mutant.noticed_by)
        finally:
            path.write_text(sound, encoding="utf-8")
        took_s = time.monotonic() - begun
        blamed = _BLAMED.search(said)
        if ended == 0:
            return Verdict(mutant, "", took_s, "survived")
        if ended != 1 or blamed is None:
            return Verdict(mutant, "", took_s, f"could not be tried: pytest ended with {ended}\n{said[-2000:]}")
        again, _ = self._run([blamed[1]])
        if again != 0:
            return Verdict(mutant, "", took_s, f"{blamed[1]} fails without it too")
        return Verdict(mutant, blamed[1], took_s)

    def _run(self, tests: Sequence[str]) -> tuple[int, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV", "DJANGO"))}
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "--tb=no", *tests]
        try:
            ended = subprocess.run(
                command,
                cwd=self._folder,
                env={**kept, "CI": "", "PYTHONDONTWRITEBYTECODE": "1"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=LONGEST_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            # A fault by which nothing ends is noticed by whoever waits for it.
            return 1, f"FAILED {tests[0]} (nothing ended within {LONGEST_S:g} s)"
        return ended.returncode, ended.stdout + ended.stderr
