"""A star, a real broker and a real worker: learned and ranked within seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User

from tests import scenes
from tests.processes import wait_for
from tests.runs.rig import Rig, standing
from webapp.digests.models import Digest, LearnedModel, Profile
from webapp.library.models import Star
from webapp.papers.models import Paper


@pytest.mark.slow
def test_a_worker_learns_from_a_star(
    tmp_path: Path, django_db_setup: None, django_db_blocker: Any
) -> None:
    with django_db_blocker.unblock(), standing(Rig(tmp_path)) as rig:
        scenes.full()
        rig.start("quick", "-A", "workers.site.app", "worker", "-Q", "quick")
        reader = User.objects.get(username=scenes.READER)
        mine = Profile.objects.filter(slug="long-context")
        mine.update(ranking="both")
        for number in (1, 11, 21, 31, 41):
            Star.objects.create(
                reader=reader, paper=Paper.objects.get(arxiv_id=f"2603.{number:05d}")
            )
        learned = LearnedModel.objects.filter(reader=reader, liked=6)
        ranked = Digest.objects.filter(profile__in=mine, entries__matches__icontains="learned")
        wait_for(lambda: learned.exists() and ranked.exists(), "what was learned")
