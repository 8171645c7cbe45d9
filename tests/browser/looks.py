"""What holds of a page in every look: axe finds nothing, and nothing is wider than the screen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import axe_playwright_python
from playwright.sync_api import Error, Request
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
# The phone comes first: there more must be scrolled. A tab is left as wide as it began.
PAIRS = (("dark phone", "light"), ("phone", "dark"))
AXE = Path(axe_playwright_python.__file__).parent / "axe.min.js"


JUDGED: set[str] = set()  # kinds of element that were shown where axe asked for all


def faults(tab: Tab, looks: tuple[str, ...], *, colours: bool = True) -> list[str]:
    """What is wrong in which look. The tab's context runs AXE first in each page.

    In each look its colours and width are judged; all that axe asks for in the first, and again
    where the next shows a kind of element that was judged on no page.
    """
    found = []
    for look in looks:
        scheme, viewport = LOOKS[look]
        # A colour on its way to another is none of the page's.
        tab.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
        tab.set_viewport_size(viewport)  # type: ignore[arg-type]
        shown = kinds(tab)
        asked = [look == looks[0] or not shown <= JUDGED, colours]
        found += [f"{look}: {violation}" for violation in tab.evaluate(VIOLATIONS, asked)]
        if asked[0]:
            JUDGED.update(shown)
        if (width := tab.evaluate("document.documentElement.scrollWidth")) > viewport["width"]:
            found.append(f"{look}: {width} px wide")
    return found


# Contrast is four fifths of axe's time, so it is looked at where it may differ: at the first and
# the last text of each kind. Of one kind are texts in the same boxes, by name and by colour.
VIOLATIONS = """async ([all, colours]) => {
    const numbers = new Map();
    const kinds = new Map();
    const kind = (node) => {
        if (!node) return 0;
        if (!kinds.has(node)) {
            const style = getComputedStyle(node);
            const name = [kind(node.parentElement), node.localName, node.getAttribute("class"),
                style.color, style.backgroundColor, style.backgroundImage, style.opacity,
                style.fontSize, style.fontWeight].join(" ");
            if (!numbers.has(name)) numbers.set(name, numbers.size + 1);
            kinds.set(node, numbers.get(name));
        }
        return kinds.get(node);
    };
    const hasText = (node) => node.matches("input, select, textarea")
        || [...node.childNodes].some((one) => one.nodeType === 3 && one.data.trim());
    const texts = [...document.body.querySelectorAll("*")].filter(
        (node) => hasText(node) && node.checkVisibility({ visibilityProperty: true }));
    const last = new Map(texts.map((node) => [kind(node), node]));
    const first = new Map(texts.reverse().map((node) => [kind(node), node]));
    const include = [...new Set([...first.values(), ...last.values()])];

    const resultTypes = ["violations"];
    const rules = { "color-contrast": { enabled: false } };
    const violations = [];
    if (all) violations.push(...(await axe.run(document, { resultTypes, rules })).violations);
    if (colours && include.length) {
        const contrast = { resultTypes, runOnly: ["color-contrast"] };
        violations.push(...(await axe.run({ include }, contrast)).violations);
    }
    const where = (node) => node.target.join(" ") + " " + node.failureSummary;
    return violations.map((v) => v.id + ": " + v.nodes.slice(0, 3).map(where).join(" | "));
}"""


def kinds(tab: Tab) -> set[str]:
    """What kinds of element are shown, by tag, class, names and what a screen reader is told."""
    return set(
        tab.evaluate(
            """() => [...document.body.querySelectorAll("*")]
                .filter((node) => node.checkVisibility())
                .map((node) => [node.localName, ...node.getAttributeNames().map((name) =>
                    /^(class|id|name|role|type)$/.test(name) ? node.getAttribute(name)
                    : name.startsWith("aria-") && name)].filter(Boolean).join(" "))"""
        )
    )


@contextmanager
def watched(tab: Tab, address: str) -> Iterator[list[str]]:
    """What a tab asks for beside `address` or in vain, and the errors of its scripts, meanwhile."""
    wrong: list[str] = []
    own = urlsplit(address).netloc

    def ask(request: Request) -> None:
        if urlsplit(request.url).netloc not in {own, ""}:
            wrong.append(request.url)

    def fail(request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # the page before it was left while it asked
            wrong.append(f"failed: {request.url}")

    def err(error: Error) -> None:
        wrong.append(str(error))

    tab.on("request", ask)
    tab.on("requestfailed", fail)
    tab.on("pageerror", err)
    yield wrong
    tab.remove_listener("request", ask)
    tab.remove_listener("requestfailed", fail)
    tab.remove_listener("pageerror", err)
