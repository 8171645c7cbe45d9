"""Make the pictures of `docs/screenshots` from a running site.

    python -m tests.browser.screenshots ADDRESS SIGN-IN-LINK [PAGE …]

ADDRESS is a site that `manage.py up` serves, with its sample day or real ones; SIGN-IN-LINK is one
that it printed. Every page is taken wide and narrow, light and dark, in English and in Chinese.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from urllib.parse import urljoin

from PIL import Image
from playwright.sync_api import Page as Tab
from playwright.sync_api import sync_playwright

from tests.machine import CHROMIUM

FOLDER = Path(__file__).resolve().parents[2] / "docs/screenshots"
PAGES = {
    "today": "/",
    "paper": "/papers/2406.10774/",  # its claim has a figure of ours beside it
    "method": "/methods/sparse_attention/",
    "run": "/runs/",  # the first run that the list links to
    "library": "/library/",
    "first-steps": "/first-steps/",
}
FIRST_RUN = "main a[href^='/runs/']:not([href*='?'])"
SIZES = {1280: 900, 390: 844}
COLOURS = 64  # of a picture: enough for text and charts, and a third of the bytes


def take(tab: Tab, address: str, names: list[str], folder: Path) -> None:
    """Save each page in every look."""
    for name in names:
        path = PAGES[name]
        if name == "run":
            tab.goto(urljoin(address, path))
            path = tab.locator(FIRST_RUN).first.get_attribute("href")
        for language in ("en", "zh-hans"):
            tab.context.add_cookies([{"name": "language", "value": language, "url": address}])
            for scheme in ("light", "dark"):
                tab.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
                for width, height in SIZES.items():
                    tab.set_viewport_size({"width": width, "height": height})
                    answer = tab.goto(urljoin(address, path or "/"))
                    if answer is None or not answer.ok:
                        raise SystemExit(f"{path} cannot be shown: no picture was taken of it.")
                    tab.wait_for_load_state("networkidle")
                    picture = Image.open(io.BytesIO(tab.screenshot()))
                    small = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
                    file = folder / f"{name}-{width}-{scheme}-{language[:2]}.png"
                    small.save(file, optimize=True)


def main(address: str, link: str, *names: str) -> None:
    """Sign in, and take the named pages, or all."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM.find(), args=["--no-sandbox"])
        tab = browser.new_context(reduced_motion="reduce").new_page()
        tab.goto(link)
        tab.get_by_role("main").get_by_role("button").first.click()
        take(tab, address, list(names) or list(PAGES), FOLDER)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
