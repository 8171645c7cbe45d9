"""Every page of the site, once: what tests that must hold for all pages walk over.

A page is an address under the scene it is looked at in. `test_inventory` fails for a URL pattern
that stands neither here nor among what is no page.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Page:
    """One address to look at, and the URL pattern it stands for."""

    view: str
    path: str
    scene: str = "full"
    signed_in: bool = False
    status: int = 200

    def __str__(self) -> str:
        who = "reader" if self.signed_in else "anyone"
        return f"{self.scene}-{who}-{self.path}"


PAGES = [
    Page("digests:today", "/"),
    Page("digests:today", "/", signed_in=True),
    Page("digests:today", "/", scene="sample"),
    Page("digests:today", "/", scene="unreachable"),
    Page("digests:today", "/", scene="empty"),
    Page("digests:today", "/?keyword=Kernel&type=new&view=abstracts&order=new"),
    Page("digests:today", "/?keyword=nothing"),
    Page("digests:archive", "/digest/"),
    Page("digests:archive", "/digest/", scene="empty"),
    Page("digests:day", "/digest/2026-03-11/"),
    Page("digests:day", "/digest/2026-03-14/", status=404),
    Page("digests:profile", "/p/long-context/"),
    Page("digests:profile-day", "/p/long-context/2026-03-12/"),
    Page("digests:category", "/category/cs.LG/?date=2026-03-12"),
    Page("digests:feeds", "/feeds/"),
    Page("digests:feeds", "/feeds/", signed_in=True),
    Page("digests:profile-new", "/feeds/new/", signed_in=True),
    Page("digests:profile-edit", "/feeds/long-context/", signed_in=True),
    Page("digests:profile-edit", "/feeds/site/", signed_in=True, status=403),
    Page("library:library", "/library/", signed_in=True),
    Page("library:library", "/library/?show=left", signed_in=True),
    Page("library:import", "/library/import/", signed_in=True),
    Page("library:zotero", "/library/zotero/", signed_in=True),
    Page("pages:first-steps", "/first-steps/", signed_in=True),
    Page("operate:connections", "/connections/", signed_in=True, status=403),
    Page("mail:account", "/account/mail/", signed_in=True),
    Page("mail:confirm", "/account/mail/confirm/none/", signed_in=True, status=404),
    Page("mail:unsubscribe", "/mail/end/none/", status=404),
    Page("mail:preview", "/account/mail/999/", signed_in=True, status=404),
    Page("library:save", "/save/none/", status=404),
    Page("library:shared", "/lists/none/", status=404),
    Page("library:shared", "/lists/kept-by-the-reader/"),
    Page("library:library", "/library/?list=1", signed_in=True),
    Page("readers:account", "/account/", signed_in=True),
    Page("readers:readers", "/account/readers/", signed_in=True, status=403),
    Page("papers:paper", "/papers/2603.00049/"),
    Page("papers:paper", "/papers/2603.00049/", signed_in=True),
    Page("papers:paper", "/papers/hep-th/9901001/"),
    Page("papers:paper", "/papers/2603.99999/", status=404),
    Page("digests:why-not", "/papers/2603.00049/why-not/"),
    Page("digests:why-not", "/papers/2603.00049/why-not/", signed_in=True),
    Page("claims:corrections", "/corrections/", signed_in=True, status=403),
    Page("papers:search", "/search"),
    Page("papers:search", "/search?q=attention"),
    Page("papers:search", "/search?q=zebra"),
    Page("papers:intake", "/intake/"),
    Page("papers:intake", "/intake/", scene="empty"),
    Page("papers:intake", "/intake/", scene="sample"),
    Page("summaries:day", "/summaries/2026-03-12/"),
    Page("catalog:methods", "/methods/", scene="sample"),
    Page("catalog:method", "/methods/sparse_attention/", scene="sample"),
    Page("papers:paper", "/papers/2512.15550/", scene="sample"),
    Page("catalog:method", "/methods/sparse_attention/"),
    Page("catalog:method", "/methods/sparse_attention/", signed_in=True),
    Page("catalog:code", "/methods/seps/code/"),
    Page("catalog:code", "/methods/seps/code/?level=equations&file=core.py"),
    Page("catalog:code", "/methods/concept_lm/code/?level=code&file=core.py"),
    Page("catalog:documents", "/methods/token_pruning/documents/?file=details.md"),
    Page("runs:ask", "/methods/sparse_attention/run/latency/", signed_in=True),
    Page("runs:runs", "/runs/"),
    Page("runs:workers", "/workers/"),
    Page("api:docs", "/api/docs"),
    Page("api:tokens", "/account/tokens/", signed_in=True),
    Page("readers:sign-in", "/sign-in/"),
    Page("readers:use-link", "/sign-in/no-such-token/"),
    Page("ui:keyboard", "/keyboard/"),
    Page("ui:help", "/help/"),
]
NOT_PAGES = {
    *(
        "catalog:correct",
        "claims:correct",
        "runs:of-paper",
        "library:star",
        "readers:sign-out",
        "readers:language",
    ),  # POST only
    *("library:entry", "library:leave", "library:list", "library:bulk"),  # POST only
    *("library:forget", "digests:profile-import", "papers:fetch-now"),  # POST only
    "readers:sign-out-elsewhere",  # POST only
    *(
        "library:starred",
        "library:export",
        "library:shared-feed",
        "readers:export",
    ),  # where the library was, and files
    *("papers:bibtex", "papers:ris"),  # files
    *(
        "digests:moved",
        "digests:feed",
        "digests:day-feed",
        "digests:profile-feed",
        "digests:profile-day-feed",
    ),
    *("digests:category-feed", "digests:search-feed", "digests:opml"),
    "catalog:measurements",
    "catalog:papers-feed",
    "summaries:tables",  # a POST
    *("summaries:again", "summaries:cancel"),  # POSTs
    *("summaries:summary", "summaries:ask"),  # a part of the paper's page, and a POST
    *("runs:cancel", "runs:live"),  # POST only, and a part of the run's page
    *("runs:artefact", "runs:chart-style", "runs:csv", "runs:feed", "runs:json"),  # files
    "runs:run",  # every state of it is looked at in test_runs
    *("api-1:api-root", "api-1:cancel", "api-1:create", "api-1:latest", "api-1:methods"),
    *("api-1:openapi-json", "api-1:results", "api-1:status"),
    *("api-1:papers", "api-1:paper", "api-1:feeds", "api-1:digest", "api-1:method_results"),
    "api-1:tables",
    *("api-1:library", "api-1:change", "ui:robots"),
    *("operate:healthz", "operate:readyz", "operate:metrics"),
}
