"""Generated sections of a document."""

from __future__ import annotations

import pytest

from engine.core.errors import BadInput
from engine.core.sections import replaced, section

DOCUMENT = "# Title\n\n<!-- costs: generated -->\nof yesterday\n<!-- /costs -->\n\nThe rest.\n"


def test_a_section_is_replaced_and_nothing_else() -> None:
    written = replaced(DOCUMENT, "costs", "of today")
    assert written == "# Title\n\n<!-- costs: generated -->\n\nof today\n\n<!-- /costs -->\n\nThe rest.\n"
    assert replaced(written, "costs", "of today") == written


def test_a_section_can_be_read() -> None:
    assert section(DOCUMENT, "costs") == "of yesterday"
    assert section(DOCUMENT, "prices") == ""


@pytest.mark.parametrize("document", ["# Title", "<!-- costs: generated --> without an end"])
def test_a_document_without_the_section_is_refused(document: str) -> None:
    with pytest.raises(BadInput, match="no section 'costs'"):
        replaced(document, "costs", "of today")
