"""What lamps tell."""

from __future__ import annotations

import logging

from engine.core.fact_kinds import FactCatalog, FactCounter, FactKind, Tone

FACTS = FactCatalog(
    "lamps",
    (
        FactKind(
            "lamp_switched",
            "somebody switched a lamp",
            Tone.ACT,
            logging.INFO,
            FactCounter("Lamps switched.", labels=("street",)),
        ),
    ),
)
