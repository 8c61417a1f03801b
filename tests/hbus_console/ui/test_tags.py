"""Tags and filters as templates use them, and the pieces they are made of."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from django.template import Context, Template
from django.test import RequestFactory
from tablericons import IconDoesNotExist

from hbus_console.registry.declaration import Feature
from hbus_console.registry.loading import features
from hbus_console.state import ROOT
from hbus_console.teams.models import Team
from hbus_console.ui import states
from hbus_console.ui.curl import CurlRequest, command
from hbus_console.ui.states import tone_of


def render(source: str, path: str = "/", **context: object) -> str:
    return Template(source).render(Context({"request": RequestFactory().get(path), **context}))


def test_an_icon_is_inline_svg_hidden_from_screen_readers_unless_labelled() -> None:
    assert 'aria-hidden="true"' in render('{% icon "outline/home" size=20 %}')
    assert 'width="20"' in render('{% icon "outline/home" size=20 %}')
    assert 'aria-label="Home"' in render('{% icon "outline/home" label="Home" %}')


def test_an_icon_that_does_not_exist_fails_loudly() -> None:
    with pytest.raises(IconDoesNotExist):
        render('{% icon "outline/no-such-icon" %}')


def test_no_tag_writes_an_inline_style_which_the_policy_forbids() -> None:
    source = '{% icon "outline/home" %}{% spark values %}{% state "dead" %}{% json_block data %}{% owner team %}'
    html = render(source, values=[1, 2], data={"a": 1}, team=Team(name="A B", contact="#x"))
    assert "style=" not in html
    assert "<script" not in html


def test_a_spark_reaches_from_bottom_to_top() -> None:
    html = render('{% spark values "ok" width=10 height=10 %}', values=[0, 5, 10])
    assert "tone-ok" in html
    assert 'd="M-2 130V95H0l1 -43 1 -42H4V130"' in html


def test_a_spark_of_many_values_keeps_its_shape_in_few_points() -> None:
    html = render("{% spark values %}", values=[0] * 500 + [9] * 500)
    steps = html.split("l1")[1].split("H")[0].split(" 1 ")
    assert len(steps) == 59
    assert [int(step) for step in steps if int(step)] == [-85]


def test_nothing_to_draw_is_a_flat_line() -> None:
    assert 'd="M-2 130V95H0l1 0H3V130"' in render("{% spark values %}", values=[])


def test_json_is_escaped_highlighted_and_masked_values_are_chips() -> None:
    html = render("{% json_block data %}", data={"<b>": ["</pre>", 1.5, None, True], "guest": "masked · personal"})
    assert "<b>" not in html
    assert html.count("</pre>") == 1
    assert '<span class="masked">masked · personal</span>' in html
    assert '<span class="n">1.5</span>, <span class="w">null</span>, <span class="w">true</span>' in html


def test_a_state_has_a_word_beside_its_colour() -> None:
    assert render('{% state "paused" %}') == '<span class="badge warn">paused</span>'
    assert (
        render('{% state "group_lost" "lost its place" tone="bad" %}')
        == '<span class="badge bad">lost its place</span>'
    )
    assert tone_of("what nobody knows") == "neutral"
    # What has a connection goes on.
    assert [tone_of("out of connections"), tone_of("store lost")] == ["warn", "bad"]


def test_a_state_has_one_colour() -> None:
    told = [word for words in states._TONES.values() for word in words.split()]
    assert sorted(told) == sorted(set(told))


def test_a_feature_says_what_its_own_states_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = Feature("jobs", tones={"skipped": "info", "missed": "bad", "failed": "warn"})
    monkeypatch.setattr(states, "features", lambda: (*features(), jobs))
    states._declared.cache_clear()
    try:
        assert [tone_of("missed"), tone_of("missed", "jobs")] == ["bad", "bad"]
        assert [tone_of("skipped"), tone_of("skipped", "jobs")] == ["act", "info"], "of a message, it is a person's act"
        assert [tone_of("failed"), tone_of("failed", "jobs"), tone_of("failed", "messages")] == ["bad", "warn", "bad"]
        assert render('{% state "timed_out" of="jobs" %}') == '<span class="badge neutral">timed out</span>'
        assert render('{% state "skipped" of="jobs" %}') == '<span class="badge info">skipped</span>'
    finally:
        states._declared.cache_clear()


def test_what_features_declare_of_their_states_are_colours_that_there_are() -> None:
    told = [(feature.name, word, tone) for feature in features() for word, tone in feature.tones.items()]
    assert told
    assert [it for it in told if it[2] not in {"ok", "info", "warn", "bad", "act"}] == []


def test_no_page_says_again_what_colour_a_state_has() -> None:
    """Only what a word means elsewhere is a reason to say it: ``{% state "gone" tone="neutral" %}``."""
    again = [
        f"{path.name}: {word}"
        for path in (ROOT / "templates").rglob("*.html")
        for word, tone in re.findall(r'{% state "([^"]+)"(?: "[^"]+")? tone="([^"]+)" %}', path.read_text("utf-8"))
        if tone_of(word) == tone
    ]
    assert again == []


def test_every_list_that_is_read_has_rows_that_say_where_they_stand() -> None:
    """What has moved up from behind its end is else counted as new."""

    def whole(path: Path) -> str:
        text = path.read_text("utf-8")
        return text + "".join(whole(ROOT / "templates" / each) for each in re.findall(r'{% include "([^"]+)"', text))

    lists = [path for path in (ROOT / "templates").rglob("*.html") if "data-still" in path.read_text("utf-8")]
    assert lists
    assert [path.name for path in lists if "data-place=" not in whole(path)] == []


def test_a_long_key_is_cut_in_its_middle_and_whole_in_its_title() -> None:
    assert render("{% cut key 12 %}", key="room/<1>") == "room/&lt;1&gt;"
    assert (
        render("{% cut key 12 %}", key="tenant/4711/<room>")
        == '<span title="tenant/4711/&lt;room&gt;">tenant…room&gt;</span>'
    )


def test_an_owner_whose_name_may_be_cut_has_the_whole_of_it_in_its_title() -> None:
    assert 'title="Front desk of the house"' in render("{% owner team %}", team=Team(name="Front desk of the house"))
    assert "title" not in render("{% owner team %}", team=Team(name="Front desk"))


def test_no_owner_is_said_in_words() -> None:
    assert "no owner" in render("{% owner None %}")
    assert "FD" in render("{% owner team %}", team=Team(name="Front desk", contact="#fd"))


def test_query_changes_one_parameter_and_keeps_the_rest() -> None:
    assert render('{% query cursor="abc" %}', "/x/?topic=a&cursor=old") == "?topic=a&amp;cursor=abc"
    assert render('{% query topic="" %}', "/x/?topic=a") == "/x/"


def test_curl_survives_a_shell_whatever_is_in_the_body() -> None:
    body = {"reason": 'it\'s $HOME `date` "now"'}
    text = command(CurlRequest("POST", "/api/v1/x", body, idempotent=True), "https://hbus.example/")
    words = shlex.split(text.replace("\\\n", " "))
    assert words[:5] == ["curl", "-sS", "-X", "POST", "https://hbus.example/api/v1/x"]
    assert "Authorization: Bearer $HBUS_TOKEN" in words
    assert words[-1] == '{"reason": "it\'s $HOME `date` \\"now\\""}'


def test_curl_button_carries_the_command_escaped() -> None:
    html = render("{% curl spec %}", spec={"method": "GET", "path": "/api/v1/cluster"})
    assert "data-copy=" in html
    assert "http://testserver/api/v1/cluster" in html
    assert '"Authorization' not in html


@pytest.mark.parametrize("name", ["num", "rate", "ago", "clock", "exact", "duration", "seconds", "size"])
def test_a_figure_that_is_not_there_is_a_dash(name: str) -> None:
    """What a process told without it, as one of another version may, fails no page."""
    page = Template("{% load hbus %}{{ line.missing|" + name + " }}{{ line.none|" + name + " }}")
    assert page.render(Context({"line": {"none": None}})) == "––"
