"""What a pip that was cut off has left, taken away: another would believe that it is all there."""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path


def forget_half_installed() -> list[str]:
    """Remove the record of each distribution of this Python that pip did not get to the end of; returns their names.

    pip takes a package for installed by the folder of its record, and writes INSTALLER into it when all else is there.
    """
    found = sorted(
        record
        for folder in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
        for record in Path(folder).glob("*.dist-info")
        if not (record / "INSTALLER").exists()
    )
    for record in found:
        shutil.rmtree(record)
    return [record.name.removesuffix(".dist-info") for record in found]
