"""Whether a package is there whole, while pip may be at work on it or was cut off."""

from __future__ import annotations

import sysconfig
from pathlib import Path


def is_whole(package: Path) -> bool:
    """Of the folder of a package that was found. Into this Python's own folder pip puts it file by file, and INSTALLER
    into its record when all is there; elsewhere nobody looks after it but who named the place."""
    own = {Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")}
    if package.parent.resolve() not in own:
        return True
    return any(package.parent.glob(f"{package.name}-*.dist-info/INSTALLER"))
