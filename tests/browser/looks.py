"""Checks of a page in every look: no axe violation, and nothing wider than the screen."""

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
    """List the faults of each look. The tab's context runs AXE first in each page.

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


# By WCAG 2's definition, from what is painted: each element's background over what is behind it,
# the text over that, and the opacity of every element that holds it. axe skips some of it.
PALE = """(root) => {
    const pen = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    const rgba = (colour) => {
        pen.clearRect(0, 0, 1, 1);
        pen.fillStyle = colour;
        pen.fillRect(0, 0, 1, 1);
        return [...pen.getImageData(0, 0, 1, 1).data].map((part) => part / 255);
    };
    const over = (top, under) => {
        const alpha = top[3] + under[3] * (1 - top[3]);
        const mixed = [0, 1, 2].map((i) =>
            (top[i] * top[3] + under[i] * under[3] * (1 - top[3])) / (alpha || 1));
        return [...mixed, alpha];
    };
    const painted = ([node, ...inner], text) => {
        const style = getComputedStyle(node);
        let colour = rgba(style.backgroundColor);
        if (inner.length) colour = over(painted(inner, text), colour);
        else if (text) colour = over(rgba(style.color), colour);
        colour[3] *= style.opacity;
        return colour;
    };
    const light = (colour) => {
        const [r, g, b] = colour.slice(0, 3).map((part) =>
            part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const found = [];
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const node = walker.currentNode.parentElement;
        const shown = node.checkVisibility({ visibilityProperty: true });
        if (!shown || !walker.currentNode.data.trim()) continue;
        const chain = [];
        for (let one = node; one; one = one.parentElement) chain.unshift(one);
        const [a, b] = [true, false].map((text) =>
            light(over(painted(chain, text), [1, 1, 1, 1]))).sort((x, y) => x - y);
        found.push([node.localName, walker.currentNode.data.trim(), (b + 0.05) / (a + 0.05)]);
    }
    return found;
}"""
LEAST_CONTRAST = 4.5  # of text of usual size


def pale(tab: Tab, selector: str) -> tuple[set[str], list[str]]:
    """The kinds of element whose texts under a selector were judged, and the texts too pale."""
    found = tab.eval_on_selector(selector, PALE)
    faint = [f"{what} {text!r}: {ratio:.2f}" for what, text, ratio in found
             if ratio < LEAST_CONTRAST]  # fmt: skip
    return {what for what, _, _ in found}, faint


def kinds(tab: Tab) -> set[str]:
    """The kinds of element that are shown, by tag, class, name and accessible description."""
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
    """Record requests of a tab that fail or leave the site, and the errors of its scripts."""
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
