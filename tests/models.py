"""`manage.py test --models [FILE]`: a real model's answers through the whole path.

llama.cpp's server of `up --model` answers for ten papers of the sample, in English and in Chinese
(`--papers N` for fewer). Printed are the share of summaries done and used, of the abstracts'
numbers found, the invented details that a page would show unmarked (the aim is none), tokens and
seconds. Run before a release; docs/models.md has its result.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from contextlib import ExitStack
from typing import Any

FIELDS = ("metric", "subject", "baseline", "setting", "hardware")


def main(arguments: list[str]) -> int:
    """Summarise and print; the exit status is 1 where an invented detail is shown."""
    parser = argparse.ArgumentParser(prog="manage.py test --models", description=__doc__)
    parser.add_argument("model", nargs="?", default="smollm2")
    parser.add_argument("--papers", type=int, default=10)
    options = parser.parse_args(arguments)
    from workers.up.llama import ModelFileError
    from workers.up.local_model import find_model, servable

    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        os.environ |= {"ASSAY_DATA": folder, "DJANGO_SETTINGS_MODULE": "webapp.settings"}
        try:
            model = servable(find_model(options.model))
        except ModelFileError as error:
            sys.exit(str(error))
        _papers_of_the_sample(options.papers)
        server = model.start()
        stack.callback(server.wait)
        stack.callback(server.kill)
        while not model.is_ready():
            if server.poll() is not None:
                sys.exit(f"llama.cpp ended with {server.returncode}.")
            time.sleep(1)
        os.environ |= model.connection
        return 1 if _summarise("llama.cpp", model.name) else 0


def _papers_of_the_sample(count: int) -> None:
    """A database with the sample day, and the abstracts of some papers as their texts."""
    import django

    django.setup()
    from django.core.management import call_command
    from django.utils import timezone

    call_command("migrate", verbosity=0)
    from webapp.papers.models import Paper
    from webapp.papers.sample import load_sample
    from webapp.summaries.models import FullText

    load_sample()
    for paper in Paper.objects.order_by("arxiv_id")[:count]:  # the sample has abstracts alone
        FullText.objects.create(
            paper=paper,
            version=paper.version,
            source="abstract",
            sections=[{"title": "Abstract", "text": paper.abstract}],
            sha256="0" * 64,
            fetched_at=timezone.now(),
        )


def _summarise(server: str, model: str) -> int:
    """Have the server that is connected summarise; the invented details that are shown."""
    from webapp.papers.models import Paper
    from webapp.summaries import queue
    from webapp.summaries.client import Server
    from webapp.summaries.models import ModelCall, Summary
    from webapp.summaries.summarise import summarise

    asked = Server.configured()
    assert asked is not None
    wanted = list(Paper.objects.exclude(full_texts=None).order_by("arxiv_id"))
    begun = time.monotonic()
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
    made = Summary.objects.filter(model=model).select_related("paper").prefetch_related("claims")
    calls = list(ModelCall.objects.filter(model=model))
    _print(server, list(made), calls, time.monotonic() - begun)
    return sum(map(_invented, made))


def _print(name: str, rows: list[Any], calls: list[Any], seconds: float) -> None:
    from webapp.claims.extraction.reported import reported_numbers

    done = [row for row in rows if row.state == "done"]
    used = [row for row in done if not row.withheld]
    reported = found = 0
    for row in rows:
        values = {value for claim in row.claims.all() for value in _numbers(claim.value)}
        numbers = {
            n for claim in reported_numbers(row.paper.abstract) for n in _numbers(claim.value)
        }
        reported += len(numbers)
        found += len(numbers & values)
    tokens_in, tokens_out = (
        sum(getattr(c, f"tokens_{way}") for c in calls) for way in ("in", "out")
    )
    print(
        f"{name}: {len(done)} of {len(rows)} done, {len(used)} used; "
        f"{found} of {reported} numbers of the abstracts found; "
        f"{sum(map(_invented, rows))} invented details shown unmarked; "
        f"{len(calls)} requests, {tokens_in} tokens read, {tokens_out} written; "
        f"{seconds:.0f} s in all"
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
