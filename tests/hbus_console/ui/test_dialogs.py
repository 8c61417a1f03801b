"""The dialog in front of an act, as templates write it."""

from __future__ import annotations

import re

import pytest
from django.template import RequestContext, Template
from django.template.exceptions import TemplateSyntaxError
from django.test import RequestFactory
from django.urls import reverse


def draw(source: str, **context: object) -> str:
    """What a page gets, with the white space between tags taken out."""
    request = RequestFactory().get("/")
    return re.sub(r"\s*\n\s*", "", Template(source).render(RequestContext(request, context)))


def test_a_sheet_is_a_dialog_that_says_what_happens_and_asks_why() -> None:
    html = draw(
        '{% sheet "pause" "topics:pause" name title="Pause "|add:name verb="Pause it" tone="danger" %}'
        "Messages <b>wait</b>.{% endsheet %}",
        name="booking.created",
    )
    assert '<div class="sheet" id="pause" popover role="dialog" aria-labelledby="pause-title">' in html
    assert '<h2 id="pause-title">Pause booking.created</h2><p class="muted">Messages <b>wait</b>.</p>' in html
    assert f'<form method="post" action="{reverse("topics:pause", args=["booking.created"])}">' in html
    assert re.search(r'<input type="hidden" name="csrfmiddlewaretoken" value="\w{64}">', html)
    assert (
        '<label for="pause-why">Why (kept in the audit log)</label><input id="pause-why" name="reason" required' in html
    )
    assert '<button class="button danger">Pause it</button>' in html
    assert 'popovertarget="pause" popovertargetaction="hide">Cancel</button>' in html


def test_what_people_named_is_escaped() -> None:
    html = draw('{% sheet "x" title="Delete "|add:name verb=name send_key=name %}{{ name }}{% endsheet %}', name='<i>"')
    assert "<i>" not in html
    assert html.count("&lt;i&gt;&quot;") == 4


def test_an_optional_reason_says_so_and_none_is_not_asked_for() -> None:
    optional = draw('{% sheet "x" title="X" verb="X" reason="optional" %}{% endsheet %}')
    assert "Why (optional, kept in the audit log)" in optional
    assert " required" not in optional
    assert 'name="reason"' not in draw('{% sheet "x" title="X" verb="X" reason="" %}{% endsheet %}')


def test_the_field_of_the_reason_may_be_another() -> None:
    html = draw(
        '{% sheet "x" title="X" verb="X" reason_id="note" reason_name="note" reason_label="A word" '
        'reason_value="late" reason_placeholder="guest asks" %}{% endsheet %}'
    )
    assert '<label for="note">A word</label><input id="note" name="note" required' in html
    assert 'value="late" placeholder="guest asks"' in html


def test_fields_stand_in_front_of_the_reason_and_acts_in_place_of_the_one() -> None:
    html = draw(
        '{% sheet "x" title="X" verb="Not drawn" send_act="open" back="Back" %}'
        '{% fields %}<input name="size">{% acts %}<button>First</button><button>Second</button>{% endsheet %}'
    )
    assert '<input type="hidden" name="act" value="open"><div class="fields"><input autofocus name="size">' in html
    assert html.index('name="size"') < html.index('name="reason"') < html.index("First") < html.index(">Back<")
    assert '<p class="muted">' not in html
    assert "Not drawn" not in html


def test_what_a_page_was_asked_for_goes_on_with_the_form_as_far_as_it_says_something() -> None:
    html = draw(
        '{% sheet "x" "audit:export" query=query send=wanted title="X" verb="X" %}{% endsheet %}',
        query="range=1h",
        wanted={"actor": "anna", "action": ""},
    )
    assert f'action="{reverse("audit:export")}?range=1h"' in html
    assert '<input type="hidden" name="actor" value="anna">' in html
    assert 'name="action"' not in html
    assert "?" not in draw('{% sheet "x" "audit:export" query=no.such title="X" verb="X" %}{% endsheet %}')


@pytest.mark.parametrize(
    "source",
    [
        '{% sheet "x" %}',
        "{% sheet title='X' %}",
        '{% sheet "x" title="X" colour="red" %}',
        '{% sheet "x" title="X" y %}',
    ],
)
def test_a_sheet_that_was_written_wrongly_fails_loudly(source: str) -> None:
    with pytest.raises(TemplateSyntaxError, match="A sheet takes"):
        Template(source + "{% endsheet %}")


@pytest.mark.parametrize(
    "field", ['<input type="hidden" name="revision" value="2">', "{% if x %}<select></select>{% endif %}"]
)
def test_a_field_that_would_not_be_sent_is_refused(field: str) -> None:
    """A guard stood in what a sheet says, which is outside of its form: it guarded nothing."""
    with pytest.raises(TemplateSyntaxError, match="is not sent"):
        Template(f'{{% sheet "x" title="X" verb="X" %}}{field}It ends.{{% endsheet %}}')
    Template(f'{{% sheet "x" title="X" verb="X" %}}It ends.{{% fields %}}{field}{{% endsheet %}}')


def test_a_form_asks_why_in_the_same_words_as_a_sheet() -> None:
    html = draw(
        '{% why "f-reason" value=said error=wrong placeholder="merged" %}', said='so "it" is', wrong="Too long."
    )
    assert '<div class="field"><label for="f-reason">Why (kept in the audit log)</label>' in html
    assert '<input id="f-reason" name="reason" required maxlength="300" autocomplete="off"' in html
    assert 'value="so &quot;it&quot; is" placeholder="merged"' in html
    assert 'aria-invalid="true" aria-describedby="f-reason-error"' in html
    assert '<p class="error" id="f-reason-error" role="alert">Too long.</p>' in html


def test_a_reason_that_need_not_be_given_says_so() -> None:
    html = draw('{% why "f-reason" optional=True wide=True %}')
    assert '<div class="field wide"><label for="f-reason">Why (optional, kept in the audit log)</label>' in html
    assert "required" not in html
    assert "value=" not in html
    assert "aria-invalid" not in html


def test_the_first_field_of_a_sheet_takes_the_focus() -> None:
    def focused(source: str) -> list[str]:
        return re.findall(r"<(?:input|select|button)[^>]* autofocus[^>]*>", draw(source))

    (why,) = focused('{% sheet "x" title="X" verb="X" %}{% endsheet %}')
    assert 'name="reason"' in why
    (field,) = focused(
        '{% sheet "x" title="X" verb="X" %}{% fields %}<input type="hidden" name="a"><select name="b"></select>'
        '<input name="c">{% endsheet %}'
    )
    assert 'name="b"' in field
    (back,) = focused('{% sheet "x" title="X" verb="Go on" reason="" %}{% endsheet %}')
    assert 'popovertargetaction="hide"' in back
