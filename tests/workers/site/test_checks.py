"""Django's own checks, which workers skip as they start."""

from __future__ import annotations

import os

from django.core.management import call_command

import workers.site.app  # noqa: F401 (what it sets is looked at)


def test_the_checks_hold_and_no_worker_repeats_them() -> None:
    call_command("check", fail_level="WARNING")
    assert os.environ["CELERY_SKIP_CHECKS"]
