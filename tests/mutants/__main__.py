"""``python -m tests.mutants [NAME …]``: who catches each planted fault, in how long; ends with 1 when one survives."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.mutants.plan import PLAN
from tests.mutants.planting import Nursery


def main(names: list[str]) -> int:
    unknown = set(names) - {mutant.name for mutant in PLAN}
    if unknown:
        print(f"There is no mutant {', '.join(sorted(unknown))}.", file=sys.stderr)
        return 2
    chosen = [mutant for mutant in PLAN if not names or mutant.name in names]
    survived = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        nursery = Nursery(Path(folder))
        for mutant in chosen:
            verdict = nursery.try_out(mutant)
            survived += not verdict.caught_by
            outcome = f"caught by {verdict.caught_by}" if verdict.caught_by else f"NOT CAUGHT: {verdict.trouble}"
            print(f"{mutant.name:<34} {verdict.took_s:6.1f} s  {outcome}", flush=True)
    print(f"{len(chosen) - survived} of {len(chosen)} caught.")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
