"""A star, a real broker and a real worker: learned and ranked within seconds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT

STARS = """
import time, django; django.setup()
from django.contrib.auth.models import User
from webapp.digests.models import Digest, LearnedModel, Profile, Star
from webapp.papers.models import Paper
reader = User.objects.get(username="reader")
profile = Profile.objects.get(slug="long-context")
Profile.objects.filter(pk=profile.pk).update(ranking="both")
for number in (1, 11, 21, 31, 41):
    Star.objects.create(reader=reader, paper=Paper.objects.get(arxiv_id=f"2603.{number:05d}"))
for _ in range(600):
    ranked = Digest.objects.filter(profile=profile, entries__matches__icontains="learned")
    if LearnedModel.objects.filter(reader=reader, liked=6).exists() and ranked.exists():
        break
    time.sleep(0.1)
else:
    raise SystemExit("nothing was learned within a minute")
"""


@pytest.mark.slow
def test_a_worker_learns_from_a_star(redis_url: str, tmp_path: Path) -> None:
    environment = os.environ | {
        "ASSAY_DATA": str(tmp_path),
        "DATABASE_URL": "",
        "CELERY_BROKER_URL": redis_url,
        "DJANGO_SETTINGS_MODULE": "webapp.settings",
        "PYTHONPATH": str(ROOT),
    }

    def run(*arguments: str) -> None:
        subprocess.run([sys.executable, *arguments], cwd=ROOT, env=environment, check=True)

    run("-m", "tests.scenes", "full")
    command = ["-m", "celery", "-q", "-A", "workers.site.app", "worker", "-Q", "site", "-c", "1"]
    worker = subprocess.Popen([sys.executable, *command], cwd=ROOT, env=environment)
    try:
        run("-c", STARS)
    finally:
        worker.terminate()
        worker.wait(timeout=30)
