"""`manage.py test --models [FILE]`: a real model's answers through the whole path.

llama.cpp's server of `up --model` answers for ten papers of the sample, in English and in Chinese
(`--papers N` for fewer). Printed are the share of summaries done and used, of the abstracts'
numbers found, the invented details that a page would show unmarked (the aim is none), tokens and
seconds. Run before a release; docs/models.md has its result.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from typing import Any

PAPERS = 10
READY = 120  # seconds until a server answers
FIELDS = ("metric", "subject", "baseline", "setting", "hardware")


def main(arguments: list[str]) -> int:
    """Summarise and print; the exit status is 1 where an invented detail is shown."""
    papers = PAPERS
    if "--papers" in arguments:
        at = arguments.index("--papers")
        papers = int(arguments[at + 1])
        del arguments[at : at + 2]
    from workers.up.llama import ModelFileError
    from workers.up.model_here import prepare

    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"ASSAY_DATA": folder, "DJANGO_SETTINGS_MODULE": "webapp.settings"}
        try:
            here = prepare(arguments[0] if arguments else "smollm2")
        except ModelFileError as error:
            sys.exit(str(error))
        server = here.start()
        try:
            return _summarise(here.name, papers)
        finally:
            server.terminate()
            server.wait()


def _summarise(name: str, papers: int) -> int:
    import django

    django.setup()
    from django.core.management import call_command
    from django.utils import timezone

    call_command("migrate", verbosity=0)
    from webapp.papers.models import Paper
    from webapp.papers.sample import load_sample
    from webapp.summaries import queue
    from webapp.summaries.client import AwayError, Server
    from webapp.summaries.models import FullText, ModelCall, Summary
    from webapp.summaries.summarise import summarise

    load_sample()
    wanted = list(Paper.objects.order_by("arxiv_id")[:papers])
    for paper in wanted:  # the sample has abstracts alone
        FullText.objects.create(
            paper=paper,
            version=paper.version,
            source="abstract",
            sections=[{"title": "Abstract", "text": paper.abstract}],
            sha256="0" * 64,
            fetched_at=timezone.now(),
        )
    asked = Server.configured()
    assert asked is not None
    for _ in range(READY):
        try:
            asked.ask([{"role": "user", "content": "Say yes."}])
            break
        except AwayError:
            time.sleep(1)
    for language in ("en", "zh"):
        queue.request(wanted, language, asked)
        for summary_id in queue.ready():
            started = time.monotonic()
            state = summarise(summary_id)
            row = Summary.objects.get(pk=summary_id)
            why = row.reason or (row.withheld and f"not used: {row.withheld}")
            print(
                f"{row.paper} {language} {state} {time.monotonic() - started:.0f} s {why}",
                flush=True,
            )
    rows = list(Summary.objects.select_related("paper").prefetch_related("claims"))
    calls = list(ModelCall.objects.all())
    _print(name, rows, calls)
    return 1 if sum(map(_invented, rows)) else 0


def _print(name: str, rows: list[Any], calls: list[Any]) -> None:
    from webapp.claims.extraction.claims import claims_of

    done = [row for row in rows if row.state == "done"]
    used = [row for row in done if not row.withheld]
    reported = found = 0
    for row in rows:
        values = {value for claim in row.claims.all() for value in _numbers(claim.value)}
        numbers = {n for claim in claims_of(row.paper.abstract) for n in _numbers(claim.value)}
        reported += len(numbers)
        found += len(numbers & values)
    took = [(row.finished_at - row.requested_at).total_seconds() for row in done]
    tokens_in, tokens_out = (
        sum(getattr(c, f"tokens_{way}") for c in calls) for way in ("in", "out")
    )
    print(
        f"{name}: {len(done)} of {len(rows)} done, {len(used)} used; "
        f"{found} of {reported} numbers of the abstracts found; "
        f"{sum(map(_invented, rows))} invented details shown unmarked; "
        f"{len(calls)} requests, {tokens_in} tokens read, {tokens_out} written; "
        f"{max(took, default=0):.0f} s in all"
    )


def _invented(row: Any) -> int:
    """Details of claims with a name or number that the raw abstract has nowhere, shown unmarked."""
    text = re.sub(r"[\s,\-–]", "", f"{row.paper.title} {row.paper.abstract}".casefold())
    return sum(
        token.casefold() not in text
        for claim in row.claims.all()
        for field in FIELDS
        if field not in claim.not_given
        for token in re.findall(r"\w+", getattr(claim, field))
        if re.search(r"\d", token) or token[1:] != token[1:].lower()
    )


def _numbers(text: str) -> list[str]:
    return re.findall(r"\d+(?:\.\d+)?", text)
