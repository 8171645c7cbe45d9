"""A message cannot make a task start another: bench workers write messages, too."""

from __future__ import annotations

from typing import Any

import pytest
from celery.canvas import Signature

from assay_common.acknowledgement import Request
from workers.site.app import app
from workers.site.queue_health import store_token

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("args", [[], [1]])  # the second fails: it takes none
def test_nothing_follows_a_task(monkeypatch: pytest.MonkeyPatch, args: list[int]) -> None:
    sent: list[Any] = []
    monkeypatch.setattr(Signature, "apply_async", lambda self, *_, **__: sent.append(self))
    other = app.signature("site.mail_link", args=["a@b.c"])
    store_token.apply(args=args, routing_key="site", link=other, link_error=other)
    assert sent == []


def test_nothing_follows_a_task_that_is_ended_from_outside() -> None:
    assert Request.errbacks is None
    assert Request.chord is None
