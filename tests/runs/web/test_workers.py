"""The page of workers, and what it says while what methods need is being installed."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from assay_common.files import hold
from tests.runs.saying import live_worker
from webapp.runs.models import Worker

pytestmark = pytest.mark.django_db


def test_live_and_silent_ones(client: Client) -> None:
    live_worker("one", note="at night", device_name="AMD EPYC")
    live_worker("old", last_seen=timezone.now() - timedelta(hours=1))
    html = client.get(reverse("runs:workers")).content.decode()
    names = re.findall(r"<th scope=\"row\">\s*(\w+)", html)
    assert names.index("one") < names.index("old")
    for words in ("ready", "not responding", "at night", "AMD EPYC", "worker_key NAME"):
        assert words in html
    Worker.objects.all().delete()
    assert "No worker has connected yet" in client.get("/workers/").content.decode()


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"state": "installing", "step": "torch", "seconds": 70}, "torch · 1 min 10 s so far"),
        ({"state": "installing"}, "Installing the packages that methods need"),
        ({"state": "failed", "reason": "no <space>"}, "no &lt;space&gt;"),
    ],
)
def test_the_installation_is_told(client, settings, tmp_path, told, words) -> None:
    settings.DATA_DIR = tmp_path
    hold(tmp_path / "ml-install.lock")
    (tmp_path / "ml-install.json").write_text(json.dumps(told))
    assert words in client.get("/workers/").content.decode()


@pytest.mark.parametrize("text", ["", "[]", '{"state": 3}', '{"state": "installed"}'])
def test_nothing_to_tell_is_not_told(client, settings, tmp_path, text) -> None:
    settings.DATA_DIR = tmp_path
    (tmp_path / "ml-install.json").write_text(text)
    page = client.get("/workers/")
    assert page.status_code == 200
    assert not re.search(r'Installing|class="notice failed"', page.content.decode())
