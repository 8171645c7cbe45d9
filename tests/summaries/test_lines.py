"""A model's line as HTML: bold and formulas kept, and numbers that do not stand marked."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from webapp.summaries.render import plain_line, render_line

MARK = '<mark class="unverified" title="This number was not found in the text">'


def test_what_a_line_may_hold() -> None:
    html = render_line("**bold**, *slanted*, `code` and $O(n^2)$.")
    assert "<strong>bold</strong>, <em>slanted</em>, <code>code</code>" in html
    assert "<msup><mi>n</mi><mn>2</mn></msup>" in html


def test_links_images_and_tags_stay_text() -> None:
    html = render_line("[a](javascript:x) ![i](http://e/x.png) <script>x</script>")
    assert html == "[a](javascript:x) ![i](http://e/x.png) &lt;script&gt;x&lt;/script&gt;"


def test_numbers_that_do_not_stand_are_marked_wherever_they_are() -> None:
    html = render_line("3.5× and 7, **9**, 达到9.1倍, $x=4$, GPT-4, v2", lambda n: n == "7")
    assert f"{MARK}3.5</mark>× and 7" in html
    assert f"<strong>{MARK}9</mark></strong>" in html
    assert f"达到{MARK}9.1</mark>倍" in html
    assert f"{MARK}<math" in html
    assert html.endswith("GPT-4, v2")


def test_a_plain_line_says_so_in_words() -> None:
    assert plain_line("**3.5×** faster", lambda _: False) == "3.5 [unverified]× faster"


@settings(max_examples=300)
@given(st.text(max_size=200))
def test_no_line_breaks_out(text: str) -> None:
    html = render_line(text, lambda _: False)
    assert "<script" not in html.lower()
    assert "<img" not in html.lower()
    assert "<a " not in html.lower()
