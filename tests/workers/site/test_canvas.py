"""A message cannot make a task start another: bench workers write messages, too."""

from __future__ import annotations

from typing import Any

import pytest
from celery.canvas import Signature

from workers.acknowledgement import Request
from workers.site.app import app
from workers.site.proof import store_token

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("queue", ["site", None])  # the second fails: a name must be a text
def test_nothing_follows_a_task(monkeypatch: pytest.MonkeyPatch, queue: str | None) -> None:
    sent: list[Any] = []
    monkeypatch.setattr(Signature, "apply_async", lambda self, *_, **__: sent.append(self))
    other = app.signature("site.mail_link", args=["a@b.c"])
    store_token.apply(args=[queue], link=other, link_error=other)
    assert sent == []


def test_nothing_follows_a_task_that_is_ended_from_outside() -> None:
    assert Request.errbacks is None
    assert Request.chord is None
