"""What is wrong with a draft is told at once: every setting that does not fit, and none that hangs on one of these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest

from engine.core.errors import BadInput
from hbus_console.access.permissions import SYSTEM
from hbus_console.alerts.services import rule_draft
from hbus_console.faults import GatheredFaults, ManyFaults, faults_of
from hbus_console.jobs.services import draft as job_draft
from hbus_console.jobs.services.draft import JobDraft
from hbus_console.topics.services.draft import TopicDraft
from hbus_console.topics.services.topics import create_topic


def fields_at_fault(call: Callable[[], Any]) -> list[str]:
    with pytest.raises(BadInput) as refused:
        call()
    return [each.field for each in faults_of(refused.value)]


def test_every_setting_that_does_not_fit_is_told() -> None:
    draft = asdict(JobDraft("a", "ops", "http", "", "@daily", description="\x00", timeout_s=-1))
    at_fault = fields_at_fault(lambda: job_draft.SETTINGS.checked(draft, {"name": "a"}))
    assert set(at_fault) == {"target", "description", "timeout_s"}


def test_what_hangs_on_one_that_fits_is_told_with_others_and_what_hangs_on_one_that_does_not_is_left() -> None:
    draft = asdict(JobDraft("a", "ops", "http", "https://1.1.1.1/", "never", description="\x00"))
    assert fields_at_fault(lambda: job_draft.SETTINGS.checked(draft, {"name": "a"})) == ["description", "schedule"]
    draft["zone"] = "Nowhere/At/All"
    assert set(fields_at_fault(lambda: job_draft.SETTINGS.checked(draft, {"name": "a"}))) == {"description", "zone"}
    rule = asdict(rule_draft.RuleDraft(name="", kind="no such kind", threshold=1.0))
    assert set(fields_at_fault(lambda: rule_draft.SETTINGS.checked(rule))) == {"name", "kind"}


def test_of_each_field_the_first_is_told_and_one_alone_stays_what_it_is() -> None:
    faults = GatheredFaults()
    for what in ("first", "second"):
        with faults.gathered():
            raise BadInput(what, field="name")
    with pytest.raises(BadInput, match="first") as refused:
        faults.tell()
    assert not isinstance(refused.value, ManyFaults)


@pytest.mark.django_db
def test_a_new_topic_is_told_all_that_is_wrong_with_it() -> None:
    draft = TopicDraft("Booking", "nobody", description="\x00")
    assert fields_at_fault(lambda: create_topic(SYSTEM, draft, "r" * 301)) == ["name", "description", "owner", "reason"]
