"""The figures of an earlier run, kept in the repository, and today's beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from engine.core.errors import BadInput
from hbus_console.bench.rows import Row, columns, figure
from hbus_console.state import ROOT

FOLDER = ROOT / "docs" / "bench"


def file_of(area: str) -> Path:
    """Where the baseline of an area lies: one row a line, as ``--json`` prints them."""
    return FOLDER / f"{area}.jsonl"


def load(path: Path) -> dict[str, Row]:
    """The rows by name. Raises ``BadInput`` where there are none, or a line is not a row."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise BadInput(f"There is no baseline at {path.name}.", remedy="Make one with --save.") from None
    rows: dict[str, Row] = {}
    for number, line in enumerate(lines, 1):
        try:
            row = Row(**json.loads(line))
        except (ValueError, TypeError) as error:
            raise BadInput(
                f"Line {number} of {path.name} is no row: {error}.", remedy="Make it anew: --save."
            ) from None
        rows[row.what] = row
    return rows


def save(path: Path, rows: Sequence[Row], names: Sequence[str]) -> None:
    """Put ``rows`` in place of those of the same name and keep the others that ``names``, all there are, still has."""
    kept = load(path) if path.exists() else {}
    kept |= {row.what: row for row in rows}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{kept[name].as_json()}\n" for name in names if name in kept), encoding="utf-8")


def beside(rows: Sequence[Row], before: Mapping[str, Row]) -> str:
    """Today's rows beside those of the baseline, and under what conditions each were measured; no judgement."""
    lines: list[Sequence[str]] = [("what", "ours now", "then", "ratio now", "then", "now/then")]
    for row in rows:
        then = before.get(row.what)
        lines.append(
            (
                row.what,
                figure(row.ours, row.unit),
                "not in the baseline" if then is None else figure(then.ours, then.unit),
                _ratio(row.ratio),
                _ratio(then.ratio if then else None),
                _ratio(row.ratio / then.ratio if then and row.ratio and then.ratio else None),
            )
        )
    conditions = [f"now:  {each}" for each in _conditions(rows)]
    conditions += [f"then: {each}" for each in _conditions([before[row.what] for row in rows if row.what in before])]
    return "\n".join([columns(lines), *conditions])


def _conditions(rows: Sequence[Row]) -> list[str]:
    """Each once; what a single row adds after a semicolon stands in the file."""
    return list(dict.fromkeys(row.conditions.partition(";")[0] for row in rows))


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
