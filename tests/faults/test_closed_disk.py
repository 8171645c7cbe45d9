"""A data directory that its owner may no longer write: pages are read, writes say why, and all goes
on when it is open again.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.processes import ROOT, House, up, wait_for

NO_MORE = "-dac_override,-dac_read_search,-fowner"  # by which root writes whatever the mode says
PAGES = ("", "runs/", "workers/", "methods/")


@pytest.fixture
def python(tmp_path: Path) -> str:
    """A Python for which the modes of files hold, root's, too."""
    if os.geteuid() != 0:
        return sys.executable
    if not shutil.which("setpriv"):
        pytest.skip("needs setpriv: sudo apt-get install util-linux")
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\nexec setpriv --bounding-set {NO_MORE} {sys.executable} "$@"\n')
    program.chmod(0o700)
    return str(program)


def set_writable(data: Path, writable: bool) -> None:
    for path in [data, *data.rglob("*")]:
        mode = path.lstat().st_mode
        if not path.is_socket():  # nobody writes into its file
            path.chmod(mode | 0o200 if writable else mode & ~0o222)


def manage(data: Path, python: str, command: str) -> str:
    """Run a command for the closed directory; return what it answers."""
    nowhere = "http://127.0.0.1:9"
    done = subprocess.run(
        [python, "manage.py", command],
        cwd=ROOT,
        env={**os.environ, "ASSAY_DATA": str(data), "DATABASE_URL": "",
             "ASSAY_ARXIV_RSS_URL": nowhere, "ASSAY_ARXIV_API_URL": nowhere},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


def sign_in(house: House, link: str) -> tuple[int, str]:
    """Press the button of a link; status and page of the answer."""
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar := CookieJar()))
    browser.open(link).read()
    token = next(cookie.value for cookie in jar if cookie.name == "csrftoken")
    try:
        form = urlencode({"csrfmiddlewaretoken": token}).encode()
        with browser.open(link, form) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.mark.slow
def test_a_closed_disk(tmp_path: Path, python: str) -> None:
    data = tmp_path / "data"
    with up(data, python=python) as house:
        link = house.said(r"One-time sign-in link +(\S+)")[1]
        wait_for(lambda: house.get("readyz")[0] == 200, "a site that is ready")
        set_writable(data, False)
        try:
            for word in ("assay-web", "assay-bulk", "assay-site"):  # whose files are open still
                for pid in house.children(word):
                    os.kill(pid, signal.SIGKILL)
            wait_for(lambda: sign_in_refused(house, link), "a refusal")
            for started in (r"site │ .*not stored", r"site │ .*health\.token.* raised"):
                house.said(started + ".*attempt to write a readonly database")
            for page in PAGES:
                assert house.get(page)[0] == 200, page
            for command, line in (
                ("doctor", f"{data} cannot be written by this user, or its disk is read-only"),
                ("fetch", "this user may not write there"),
            ):
                told = manage(data, python, command)
                assert line in told
                assert "Traceback" not in told
            data.chmod(0o700)  # the files alone are closed
            told = manage(data, python, "fetch")
            assert "The disk cannot be written to: attempt to write a readonly database." in told
            assert "Traceback" not in told
            assert house.process.poll() is None
        finally:
            set_writable(data, True)
        opened = time.monotonic()

        def answered() -> bool:
            checks = json.loads(house.get("readyz")[1])["checks"]
            ages = [re.match(r"it answered (\d+) s ago", check["detail"]) for check in checks[2:5]]
            since = time.monotonic() - opened
            return all(age and int(age[1]) < since - 1 for age in ages)

        try:
            wait_for(answered, "a sign of life of beat and both queues")
        except AssertionError as error:
            error.add_note(f"{house.get('readyz')[1]}\n{house.output}")
            raise
        assert sign_in(house, link)[0] == 200


def sign_in_refused(house: House, link: str) -> bool:
    """Return whether the site answers and explains why it cannot write."""
    try:
        status, page = sign_in(house, link)
    except OSError:
        return False  # its web server is being started again
    assert (status, "The disk cannot be written to, so nothing" in page) == (503, True), page
    return True
