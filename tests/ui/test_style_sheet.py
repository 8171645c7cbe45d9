"""The style sheet sets what icons, templates and scripts take from it."""

from __future__ import annotations

import re

from tests.processes import ROOT

CSS = (ROOT / "static/css/assay.css").read_text()
FILES = [
    *ROOT.glob("static/*.svg"),
    *ROOT.glob("static/css/*.css"),
    *ROOT.glob("static/js/*.js"),
    *ROOT.glob("templates/**/*.html"),
]


def test_every_custom_property_that_is_used_is_set_somewhere() -> None:
    """The star of a saved paper stayed hollow when a rule that only its icon uses was removed."""
    texts = [file.read_text() for file in FILES]
    used = {name for text in texts for name in re.findall(r"var\((--[\w-]+)", text)}
    set_here = re.compile(r"(?<!var\()(--[\w-]+)['\"]?\s*[:,]")
    given = {name for text in texts for name in set_here.findall(text)}
    assert used
    assert used <= given


def test_the_star_of_a_saved_paper_is_filled() -> None:
    (rule,) = re.findall(r'^\.star\[aria-pressed="true"\] \{ (.*?) \}', CSS, re.MULTILINE)
    assert "--star: currentcolor;" in rule
    icon = (ROOT / "static/icons.svg").read_text()
    assert re.search(r'id="star".*?fill="var\(--star, none\)"', icon)
