"""Template context of every page: what a page promises and a failing task keeps from it."""

from collections.abc import Sequence

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext, gettext_noop

from webapp.operate.failures import failing

# What does not happen while one of the tasks fails, and how the addresses of the pages begin on
# which a reader would wait for it. The pages of days say themselves what of the intake fails.
CONCERNS: Sequence[tuple[str, tuple[str, ...], tuple[str, ...]]] = (
    (
        gettext_noop("What readers save is not learned from"),
        ("/library/", "/profiles/"),
        ("site.learn", "site.learn_all"),
    ),
    (
        gettext_noop("Papers that readers ask for cannot be fetched"),
        ("/library/",),
        ("site.save_named", "site.save_by"),
    ),
    (gettext_noop("Zotero libraries cannot be read"), ("/library/",), ("site.read_zotero",)),
    (gettext_noop("Mail cannot be sent"), ("/account/mail/",), ("site.mail",)),
    (gettext_noop("Sign-in links cannot be mailed"), ("/sign-in/",), ("site.mail_link",)),
    (
        gettext_noop("Digests cannot be built"),
        ("/profiles/", "/account/mail/"),
        ("site.build", "site.best_since"),
    ),
    (
        gettext_noop("Summaries cannot be written"),
        ("/summaries/",),
        ("site.summaries", "site.summarise"),
    ),
    (
        gettext_noop("Tables of papers cannot be read"),
        ("/quantities/",),
        ("site.read_tables", "site.read_tables_of"),
    ),
    (gettext_noop("New papers are not linked to methods"), ("/methods/",), ("site.link",)),
    (
        gettext_noop("Searches by meaning do not find new papers"),
        ("/search",),
        ("site.vectors", "site.postings"),
    ),
    (
        gettext_noop("Runs cannot be sent out, recorded or tidied away"),
        ("/runs/", "/workers/"),
        (
            *("runs.dispatch", "runs.expire", "runs.heartbeat", "runs.record", "runs.sweep"),
            *("site.tidy", "health.token"),
        ),
    ),
)


def failing_here(request: HttpRequest) -> dict[str, object]:
    """`failing_here` for templates: what does not happen since when, looked up on first use."""
    here = [concern for concern in CONCERNS if request.path.startswith(concern[1])]
    return {"failing_here": SimpleLazyObject(lambda: _failing(here)) if here else []}


def _failing(concerns: Sequence[tuple[str, tuple[str, ...], tuple[str, ...]]]) -> list[object]:
    tasks = [task for _, _, tasks in concerns for task in tasks]
    since = {one.task: one.since for one in failing(*tasks)}
    return [
        {"what": gettext(what), "since": min(since[task] for task in tasks if task in since)}
        for what, _, tasks in concerns
        if not since.keys().isdisjoint(tasks)
    ]
