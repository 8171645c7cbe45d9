"""A newcomer's walk, offline in Chromium: from the first page to a result with an interval.

    python -m benchmarks.newcomer

Starts `manage.py up` over an empty folder, without arXiv, and waits until its worker is ready. The
clock runs from the sign-in link to three seconds after the end of the run that was asked for, the
preset that the page offers first. Run it on a machine that does nothing else: the load is printed
beside the time.
"""

import os
import re
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from benchmarks.figures import Figure, report
from tests.browser.test_first_minute import walk
from tests.machine import CHROMIUM
from tests.processes import up, wait_for

CLICKS, SECONDS = 6, 240.0  # at most


def main() -> int:
    """Walk, print, and fail over a target; the exit status."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM.find(), args=["--no-sandbox"])
        with up(Path(folder) / "var", ml=True) as house:
            link = house.said(r"One-time sign-in link +(\S+)")[1]
            house.said(r"failed\. .* cannot be reached")  # so the sample day is there
            wait_for(lambda: re.search(r"ready\s*</span>", house.get("workers/")[1]), "a worker")
            load, began = os.getloadavg()[0], time.monotonic()
            clicks = walk(browser, link, typed={})
            seconds = time.monotonic() - began
            house.stop()
        browser.close()
    beside = f"load {load:.1f} before, {os.cpu_count()} cores"
    return report([Figure("clicks", clicks, target=CLICKS),
                   Figure("to a result", seconds, "s", SECONDS, beside=beside)])  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
