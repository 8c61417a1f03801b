"""What there is to roll up: topic by topic the days that the lake has, and by what each is known to be the same."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from engine.pipeline.lake.state import Kind, LakeFile, LakeState

#: How many days before one are looked through for when what was settled in it had been published.
LOOK_BACK_DAYS = 7
#: What is made of a day and how; another number has all days rolled up again.
FORM = 1


@dataclass(frozen=True, slots=True)
class TopicDay:
    """One day of one topic. All that was stored in it, published, or happened, is in its files, and nothing else."""

    topic: str
    #: UTC: ``2026-11-28``.
    date: str
    files: Sequence[LakeFile]

    @property
    def start_s(self) -> int:
        """Seconds since the epoch."""
        return (date.fromisoformat(self.date) - date(1970, 1, 1)).days * 86_400

    @property
    def digest(self) -> str:
        """Of what its files hold, whatever they are called: it is another one when some came, went or were merged."""
        made = hashlib.sha256(b"%d" % FORM)
        for sha256 in sorted(file.sha256 for file in self.files):
            made.update(sha256.encode())
        return made.hexdigest()

    def of_kind(self, kind: Kind) -> list[LakeFile]:
        return [file for file in self.files if file.kind is kind]


def days_of(state: LakeState) -> list[TopicDay]:
    """All that the lake has, by topic, the first day first."""
    files: dict[tuple[str, str], list[LakeFile]] = {}
    for file in state.files.values():
        files.setdefault((file.topic, file.date), []).append(file)
    return [TopicDay(topic, date, files[topic, date]) for topic, date in sorted(files)]


def dates_back(of: str) -> list[str]:
    """A day's own date and those that are looked through for it, the latest first."""
    day = date.fromisoformat(of)
    return [(day - timedelta(days=back)).isoformat() for back in range(LOOK_BACK_DAYS + 1)]
