"""What a page becomes when it is fetched again: who held something keeps it, and nothing stands there twice."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser.conftest import Watched

#: Has the old become the new while a field in it is held, and gives what came of it.
_MORPH = """([old, fresh]) => {
  const made = (html) => { const main = document.createElement("main"); main.innerHTML = html; return main; };
  const one = made(old), held = new Set(one.querySelectorAll("aside"));
  document.body.append(one);
  window.hbusMorph.morph(one, made(fresh), { held, kept: (each) => each.classList.add("as-of"), still: () => false });
  one.remove();
  return one.innerHTML;
}"""
NOTICE = '<div class="notice warn">2 will wait</div>'
COLUMNS = '<div class="columns"><section class="panel">{}</section><aside class="panel">{}</aside></div>'
HELD = '<div class="columns"><section class="panel">{}</section><aside class="panel as-of">{}</aside></div>'


@pytest.mark.parametrize("before", [NOTICE, NOTICE + NOTICE, ""])
@pytest.mark.parametrize("after", [NOTICE, NOTICE + NOTICE, ""])
def test_a_notice_that_comes_or_goes_above_a_form_in_hand_doubles_nothing(
    new_page: Callable[..., Watched], before: str, after: str
) -> None:
    page = new_page().open("/operations/")
    said = page.evaluate(_MORPH, [before + COLUMNS.format("two", "form"), after + COLUMNS.format("none", "gone")])
    assert said == after + HELD.format("none", "form")


def test_a_node_that_changes_its_tone_stays_the_same_node(new_page: Callable[..., Watched]) -> None:
    page = new_page().open("/operations/")
    stays = page.evaluate(
        """() => {
          const one = document.createElement("div"), other = one.cloneNode();
          one.innerHTML = '<dd class="num text-warn">1</dd>';
          other.innerHTML = '<dd class="num">2</dd>';
          const node = one.firstChild;
          window.hbusMorph.morph(one, other, { held: new Set(), kept: () => {}, still: () => false });
          return one.firstChild === node && node.textContent === "2";
        }"""
    )
    assert stays
