"""A site in use, with a row in every table that an export carries.

    python -m tests.operate.sites

fills the database of ASSAY_DATA.
"""

from __future__ import annotations

import zlib
from datetime import UTC, date, datetime
from io import StringIO
from typing import Any

import django

NOW = datetime(2026, 3, 13, 8, 15, 30, 123456, tzinfo=UTC)
# What two databases might keep differently: long and rare characters, a quote of each language,
# a number that JSON could round.
ODD = "“√2 ≤ 𝔽₂” \\u0000 \t'%s' {} 中文 e\u0301 \n end"
NUMBERS: dict[str, Any] = {"b": 0.1, "a": 1e-7, "big": 2**53 + 1, "of": [None, True, "x", 1.0]}


def fill() -> None:
    """Fill the database: of a real site what commands make, and a row of everything else."""
    from django.conf import settings
    from django.core.management import call_command

    from tests import scenes

    assert str(settings.SECRET_KEY)  # made when it is first needed
    scenes.full()
    call_command("import_results", stdout=StringIO())
    reader, paper = _reader(), _paper()
    _library(reader, paper)
    _profiles(reader, paper)
    _readings(paper)
    _summary(paper)
    _runs(reader)


def _reader() -> Any:
    from django.contrib.admin.models import CHANGE, LogEntry
    from django.contrib.auth.models import Group, Permission, User
    from django.contrib.contenttypes.models import ContentType
    from django.contrib.sessions.models import Session

    from webapp.api.models import Token
    from webapp.papers.models import Paper
    from webapp.readers.models import Preference, SignInLink

    reader = User.objects.get(username="reader")
    group = Group.objects.create(name="operators")
    group.permissions.add(Permission.objects.get(codename="change_paper"))
    reader.groups.add(group)
    reader.user_permissions.add(Permission.objects.get(codename="add_paper"))
    kind = ContentType.objects.get_for_model(Paper)
    LogEntry.objects.create(
        user=reader, content_type=kind, object_repr=ODD, action_flag=CHANGE, action_time=NOW
    )
    for key in ("b" * 32, "Z" * 32, "a" * 32, "0" * 32):  # languages sort them differently
        Session.objects.create(session_key=key, session_data="x", expire_date=NOW)
    Token.objects.create(
        reader=reader, name="notebook", token_hash="0" * 64, scopes=["library"], expires_at=NOW
    )
    Preference.objects.create(reader=reader, language="zh-hans")
    SignInLink.objects.create(reader=reader, token_hash="1" * 64, expires_at=NOW)
    return reader


def _paper() -> Any:
    from webapp.papers.models import Paper

    return Paper.objects.get(arxiv_id="2603.00049")


def _library(reader: Any, paper: Any) -> None:
    from webapp.library.models import (
        LibraryEntry,
        LikedText,
        ReadingList,
        ZoteroItem,
        ZoteroReading,
    )

    ZoteroReading.objects.create(reader=reader, version=7, include=["ABCD2345"], read_at=NOW)
    ZoteroItem.objects.create(reader=reader, key="EFGH2345", title=ODD, added_at=NOW)
    LibraryEntry.objects.create(reader=reader, paper=paper, note=ODD)
    LikedText.objects.create(reader=reader, title="A paper of elsewhere", abstract=ODD)
    ReadingList.objects.create(reader=reader, name="To read").papers.add(paper)


def _profiles(reader: Any, paper: Any) -> None:
    from webapp.digests.models import (
        Chips,
        DayToBuild,
        Digest,
        FurtherMatches,
        LearnedModel,
        Profile,
    )
    from webapp.mail.models import Delivery

    profile = Profile.objects.get(slug="long-context")
    Profile.objects.create(slug="mine", name="Mine", owner=reader, keywords=[{"keyword": ODD}])
    day = date(2026, 3, 12)
    FurtherMatches.objects.create(digest=Digest.objects.all()[0], rows=[NUMBERS])
    Chips.objects.create(paper=paper, chips=[NUMBERS])
    DayToBuild.objects.create(date=day, asked_at=NOW)
    LearnedModel.objects.create(
        reader=reader,
        intercept=-0.1,
        weights={"memory": 1.25},
        liked=3,
        disliked=1,
        fingerprint="f",
        trained_at=NOW,
    )
    Delivery.objects.create(
        reader=reader, profile=profile, frequency="daily", sent_until=day, looked_on=day
    )


def _readings(paper: Any) -> None:
    from webapp.catalog.models import LinkingState, MethodLink
    from webapp.claims.models import Correction, PaperTable, TableReading
    from webapp.learning.models import PaperVector

    MethodLink.objects.create(
        paper=paper, method="sparse_attention", relation="about", score=0.1 + 0.2, confirmed=True
    )
    Correction.objects.create(paper=paper, kind="link", subject="sparse_attention", made_at=NOW)
    Correction.objects.create(paper=paper, kind="quote", subject=ODD, value=ODD, checked_at=NOW)
    LinkingState.objects.create(linked_until=NOW, fingerprint="f")
    reading = TableReading.objects.create(paper=paper, version=3)
    PaperTable.objects.create(
        reading=reading, position=0, caption=ODD, cells=[[ODD, 0, 0, 1, 1, "", "h"]]
    )
    PaperVector.objects.create(paper=paper, encoder="e", version=3, values=bytes(range(256)))


def _summary(paper: Any) -> None:
    from webapp.summaries.models import Claim, FullText, ModelCall, ServerCapability, Summary

    FullText.objects.create(
        paper=paper,
        version=3,
        source="html",
        sha256="2" * 64,
        fetched_at=NOW,
        sections=[{"title": "1", "text": ODD * 1000}],
    )
    summary = Summary.objects.create(
        paper=paper,
        version=3,
        prompt_version="1",
        model="m",
        language="zh",
        state="done",
        content=NUMBERS,
        finished_at=NOW,
    )
    Claim.objects.create(
        summary=summary,
        position=0,
        metric="speed",
        value="3.5",
        unit="×",
        direction="higher",
        quote=ODD,
        state=Claim.State.UNIT,
    )
    ServerCapability.objects.create(base_url="http://m", model="m", mode="prompt")
    ModelCall.objects.create(
        summary=summary, day=date(2026, 3, 12), model="m", tokens_in=1, tokens_out=2
    )


def _runs(reader: Any) -> None:
    from webapp.runs.models import PeriodicTask, Run, RunLog, Worker

    worker = Worker.objects.create(name="lab-1", versions={"torch": "2.13.0"}, last_seen=NOW)
    run = Run.objects.create(
        reader=reader,
        method="seps",
        benchmark="flops",
        device="cpu",
        limit_seconds=60,
        queued_at=NOW,
        worker=worker,
        params=NUMBERS,
    )
    RunLog.objects.create(run=run, compressed=zlib.compress(ODD.encode()))
    PeriodicTask.objects.create(name="tidy", done_at=NOW)


if __name__ == "__main__":
    django.setup()
    fill()
