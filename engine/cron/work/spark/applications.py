"""The folder of applications: what lies in it may be run, and nothing else."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from engine.core.errors import BadInput, ConfigurationError

#: A path below the folder: names of plain letters, none of which begins with a dot.
_BELOW = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(?:/[A-Za-z0-9_][A-Za-z0-9._-]*)*")
#: By what Spark would take a path for a pattern, an address, or several.
_NOT_TAKEN = set(",*?[]{}\\#%:")
#: What an application may be, and what it may bring along.
APPLICATIONS, MODULES = (".py",), (".py", ".zip")


@dataclass(frozen=True, slots=True)
class ApplicationFolder:
    """``named`` by whoever runs the installation, in the setting ``by``."""

    named: Path
    by: str

    def file(self, name: str, suffixes: tuple[str, ...], field: str) -> Path:
        """The file called ``name`` there, without links. Raises ``BadInput`` (at ``field``) for what is none, or leads
        out of the folder, and ``ConfigurationError`` where the folder itself is of no use."""
        folder = self._folder()
        if not _is_plain(name, suffixes):
            raise BadInput(
                f"{name!r} is no path of a file {' or '.join(suffixes)} below the folder of applications.",
                remedy="Write it as it lies there, for example nightly/stays.py: letters, digits, _ . - and /.",
                field=field,
            )
        try:
            found = (folder / name).resolve(strict=True)
        except (OSError, RuntimeError) as error:
            raise BadInput(
                f"{name} is not in the folder of applications: {_why(error)}.",
                remedy=f"Whoever runs this installation puts it there: {self.by} names the folder.",
                field=field,
            ) from error
        if not found.is_relative_to(folder):
            raise BadInput(
                f"{name} leads out of the folder of applications.",
                remedy="Name a file that lies in it, and not one that is linked there.",
                field=field,
            )
        # A link may go by the name of an application and lead to something else.
        if not found.is_file() or not _is_plain(str(found.relative_to(folder)), suffixes):
            raise BadInput(
                f"{name} is no file {' or '.join(suffixes)}, or leads to none.", remedy="Name such a file.", field=field
            )
        return found

    def _folder(self) -> Path:
        try:
            folder = self.named.resolve(strict=True)
        except (OSError, RuntimeError) as error:
            raise ConfigurationError(
                f"{self.by} names {self.named}, which cannot be used: {_why(error)}.",
                remedy="Name a folder that is there for the roles web and jobs alike.",
                field=self.by,
            ) from error
        if not folder.is_dir() or _NOT_TAKEN & set(str(folder)):
            raise ConfigurationError(
                f"{self.by} names {self.named}, which is no folder, or one whose path Spark takes for something else.",
                remedy=f"Name a folder whose path has none of {''.join(sorted(_NOT_TAKEN))}.",
                field=self.by,
            )
        return folder


def _is_plain(name: str, suffixes: tuple[str, ...]) -> bool:
    return _BELOW.fullmatch(name) is not None and name.endswith(suffixes)


def _why(error: OSError | RuntimeError) -> str:
    """Without the path: it may lie outside, where nobody is told what there is."""
    return error.strerror or "it cannot be read" if isinstance(error, OSError) else "its links lead in a ring"
