"""What holds of a page in every look: axe finds nothing, and nothing is wider than the screen."""

from __future__ import annotations

from pathlib import Path

import axe_playwright_python
from playwright.sync_api import Page as Tab

DESKTOP = {"width": 1440, "height": 1000}
PHONE = {"width": 360, "height": 780}
LOOKS = {
    "light": ("light", DESKTOP),
    "dark": ("dark", DESKTOP),
    "dark phone": ("dark", PHONE),
    "phone": ("light", PHONE),
}
# Scheme and width of each, both of both: the next page is seen in the other two, since colours and
# layout come from one stylesheet for all.
PAIRS = (("light", "dark phone"), ("dark", "phone"))
AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()


def faults(tab: Tab, looks: tuple[str, ...], *, colours: bool = True) -> list[str]:
    """What is wrong in which look. The tab's context lets axe in (`bypass_csp`).

    Contrast is two thirds of the time: without `colours` it is left to another look.
    """
    tab.evaluate(AXE)
    found = []
    for look in looks:
        scheme, viewport = LOOKS[look]
        # A colour on its way to another is none of the page's.
        tab.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
        tab.set_viewport_size(viewport)  # type: ignore[arg-type]
        found += [f"{look}: {violation}" for violation in _violations(tab, colours)]
        if (width := tab.evaluate("document.documentElement.scrollWidth")) > viewport["width"]:
            found.append(f"{look}: {width} px wide")
    return found


def _violations(tab: Tab, colours: bool) -> list[str]:
    return list(
        tab.evaluate(
            """async (colours) => {
                const where = (node) => node.target.join(" ") + " " + node.failureSummary;
                const rules = { "color-contrast": { enabled: colours } };
                const { violations } = await axe.run(
                    document, { resultTypes: ["violations"], rules });
                return violations.map(
                    (v) => v.id + ": " + v.nodes.slice(0, 3).map(where).join(" | "));
            }""",
            colours,
        )
    )
