"""Rows of files, by where they lie: what a finding is about, however many they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Small = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Places:
    """Of rows of one kind of files, one column each."""

    #: When each message happened, epoch milliseconds.
    at: Ints
    #: A hash that names it.
    ident: Ints
    #: Which of the files that are compared, and which row of it.
    file: Small
    row: Small

    def __len__(self) -> int:
        return len(self.at)

    def take(self, which: NDArray[np.bool_] | Ints) -> Places:
        return Places(self.at[which], self.ident[which], self.file[which], self.row[which])

    def first(self, number: int) -> Places:
        """The earliest ones, in an order that does not depend on the files they are in."""
        if len(self) > 50 * number:
            # The rest is not worth being sorted.
            edge = np.partition(self.at, number)[number]
            return self.take(np.flatnonzero(self.at <= edge)).first_of_few(number)
        return self.first_of_few(number)

    def first_of_few(self, number: int) -> Places:
        return self.take(np.lexsort((self.ident, self.at))[:number])


def no_places() -> Places:
    return Places(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))


def joined(parts: Sequence[Places]) -> Places:
    """All of them."""
    if not parts:
        return no_places()
    return Places(
        np.concatenate([part.at for part in parts]),
        np.concatenate([part.ident for part in parts]),
        np.concatenate([part.file for part in parts]),
        np.concatenate([part.row for part in parts]),
    )


def addresses(file: Small, row: Small) -> Ints:
    """File and row as one number."""
    return (file.astype(np.int64) << 32) | row.astype(np.int64)


def at_addresses(of: Places, where: Ints) -> Places:
    """The rows that lie at these, as :func:`addresses` made them: each stands for one of ``of``."""
    return Places(of.at, of.ident, (where >> 32).astype(np.int32), (where & 0x7FFFFFFF).astype(np.int32))
