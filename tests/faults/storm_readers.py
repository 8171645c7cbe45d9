"""Readers in a storm: each saves papers and writes notes, and nothing acknowledged may be lost.

A reader asks over HTTP, as a browser does, and takes what answers with a redirect for kept. What
broke off may have been done or not, or may be done later by a process that stood still: its paper
is left alone from then on. While nobody listens, it tries again.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2

PAPERS = 60
TOKEN = "a" * 32  # of a form: the cookie and the field must agree


@dataclass
class Reader(threading.Thread):
    """One reader, who does something every moment until told to stop."""

    address: str
    user: int
    session: str
    chance: random.Random
    stopping: threading.Event
    # What may be there by paper: whether it is saved, and which note it has.
    saved: dict[str, set[bool]] = field(default_factory=dict)
    notes: dict[str, set[str]] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)  # papers whose last request broke off, why
    acknowledged: int = 0

    def __post_init__(self) -> None:
        threading.Thread.__init__(self, daemon=True)

    __hash__ = threading.Thread.__hash__

    def run(self) -> None:
        """Save, take back and note, until the storm is over."""
        cookies = {"sessionid": self.session, "csrftoken": TOKEN}
        with httpx2.Client(base_url=self.address, cookies=cookies, timeout=60) as client:
            papers = [f"2512.{number:05d}" for number in range(PAPERS)]
            while papers and not self.stopping.is_set():
                paper = self.chance.choice(papers)
                if self.chance.random() < 0.5:
                    wanted = self.chance.random() < 0.7
                    form = {"paper" if wanted else "clear": paper}
                    may: set[Any] = self.saved.setdefault(paper, {False})
                    why = self._post(client, "/star/", form, may, wanted)
                else:
                    note, may = self.chance.randbytes(8).hex(), self.notes.setdefault(paper, {""})
                    where = f"/library/papers/{paper}/"
                    why = self._post(client, where, {"note": note}, may, note)
                if why:
                    self.broken[paper] = why
                    papers.remove(paper)
                self.stopping.wait(0.2)

    def _post(
        self, client: httpx2.Client, where: str, form: dict[str, str], may: set[Any], wanted: object
    ) -> str:
        """Ask for it; return why that broke off, if it did."""
        before = {*may}
        may.add(wanted)
        try:
            answer = client.post(where, data=form | {"csrfmiddlewaretoken": TOKEN})
        except httpx2.ConnectError:  # nobody listens, so nothing was asked: try again
            may.intersection_update(before)
            return ""
        except httpx2.HTTPError as error:
            return repr(error)
        if answer.status_code != 302:  # 503: the database is locked or its disk is full
            return f"{answer.status_code} {answer.text[:300]}"
        may.intersection_update({wanted})
        self.acknowledged += 1
        return ""


@contextmanager
def reading(address: str, number: int, seed: int) -> Iterator[list[Reader]]:
    """So many readers at work, on papers of their own; they stop when it ends."""
    from django.conf import settings
    from django.contrib.auth.models import User
    from django.test import Client

    from webapp.papers.models import Paper

    about = {"title": "A paper", "abstract": "It is.", "primary_category": "cs.LG"}
    for n in range(PAPERS if number else 0):
        Paper.objects.get_or_create(arxiv_id=f"2512.{n:05d}", defaults=about)
    stopping, readers = threading.Event(), []
    for n in range(number):
        user, client = User.objects.create_user(f"reader{n}"), Client()
        client.force_login(user)
        session = client.cookies[settings.SESSION_COOKIE_NAME].value
        readers.append(Reader(address, user.pk, session, random.Random(seed + n), stopping))
    for reader in readers:
        reader.start()
    try:
        yield readers
    finally:
        stopping.set()
        for reader in readers:
            reader.join()


def lost(readers: list[Reader]) -> list[str]:
    """Rows that were acknowledged and are missing, or exist and were never asked for."""
    from webapp.library.models import LibraryEntry, Star

    wrong = []
    for reader in readers:
        stars = Star.objects.filter(reader=reader.user)
        saved = set(stars.values_list("paper__arxiv_id", flat=True))
        entries = LibraryEntry.objects.filter(reader=reader.user)
        notes = dict(entries.values_list("paper__arxiv_id", "note"))
        for paper, marks in reader.saved.items():
            if (paper in saved) not in marks:
                wrong.append(f"reader {reader.user}: {paper} is saved: {paper in saved}")
        for paper, texts in reader.notes.items():
            if notes.get(paper, "") not in texts:
                wrong.append(f"reader {reader.user}: the note of {paper}")
    return wrong
