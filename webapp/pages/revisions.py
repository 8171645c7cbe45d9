"""Which table raises which scope: all that a kept page shows is here.

papers            any paper, version or announcement
paper:7           what is kept beside the paper with key 7: texts, summaries, claims
listings          what arXiv sent; `listings:2026-03-02` on one day
sample            whether the site shows the sample, and why
profile:mine      a profile and its digests, by its slug; `profile:` is the site's
methods           links from papers to methods, and what stands measured
run:0198c0de…     a run, by its id without hyphens
results           the public runs that succeeded
quantities        what tables of papers report
gists             what cards, mail and feeds show of summaries and of numbers of abstracts
profiles          the profiles that readers see, without their digests
vectors           what an encoder made of papers
digests           any digest
models            what was learned of any reader
failures          which tasks fail in the background

What waits to be learned of reader 7 is raised as "learn:7".
"""

from webapp.core.revisions import Watch

_PAPER = (
    *("arxiv_id", "version", "title", "abstract", "authors", "primary_category", "categories"),
    *("title_html", "abstract_html", "submitted_at", "updated_at", "comment", "doi"),
    *("journal_ref", "license", "code_offered", "announced_on", "enriched_at", "is_sample"),
)
_SUMMARY = (
    *("version", "language", "model", "state", "reason", "not_before", "requested_at"),
    *("finished_at", "gist", "gist_html", "content", "html", "text_source", "text_share"),
    *("read_share", "unverified", "withheld", "written"),
)
_LISTING = (
    *("category", "date", "state", "source", "reason", "counts", "problems", "failures"),
    "changed_at",
)
_RUN = (
    *("reader_id", "imported", "public", "method", "benchmark", "version", "preset", "params"),
    *("seed", "device", "limit_seconds", "limit_mib", "state", "attempt", "worker_id", "failure"),
    *("reason", "started_at", "finished_at", "environment_id", "result"),
)
_RESULT = "SELECT 'results' AS scope WHERE {row}.state = 'succeeded' AND {row}.public"
_OF_RUN = "SELECT 'run:' || replace(CAST({row}.run_id AS text), '-', '') AS scope"
_OF_PAPER = "SELECT 'paper:' || {row}.paper_id AS scope"
_PROFILE = """
    SELECT 'profile:' || p.slug AS scope FROM digests_profile p WHERE p.id = {key}
    UNION SELECT 'profile:' FROM digests_profile p WHERE p.id = {key} AND p.is_site
"""

_READER = "SELECT 'learn:' || {row}.reader_id AS scope"
# What is learned of a reader depends on these.
_LEARNING = [
    Watch("digests_star", _READER, work="learn"),
    Watch(
        "library_libraryentry",
        _READER,
        ("read_at", "not_for_me", "note", "tags", "changed_at"),
        work="learn",
    ),
    Watch("library_likedtext", _READER, work="learn"),
    Watch("library_zoteroitem", _READER, work="learn"),
    Watch("library_zoteroreading", _READER, ("collections", "include", "exclude"), work="learn"),
    Watch(
        "library_readinglist_papers",
        "SELECT 'learn:' || reader_id AS scope FROM library_readinglist"
        " WHERE id = {row}.readinglist_id",
        work="learn",
    ),
    Watch(
        "digests_profile",
        "SELECT 'learn:' || {row}.owner_id AS scope",  # NULL without an owner
        ("owner_id", "ranking", "learn_from"),
        work="learn",
    ),
    Watch("auth_user", "SELECT 'learn:' || {row}.id AS scope", ("is_active",), work="learn"),
    # A paper that a Zotero library has; and the first ones, to compare with.
    Watch(
        "papers_paper",
        "SELECT 'learn:' || reader_id AS scope FROM library_zoteroitem"
        " WHERE arxiv_id = {row}.arxiv_id UNION SELECT 'learn:'"
        " WHERE NOT EXISTS (SELECT 1 FROM papers_paper WHERE id < {row}.id)",
        ("arxiv_id",),
        work="learn",
    ),
]

WATCHES = [
    *_LEARNING,
    Watch("health_failure", "SELECT 'failures' AS scope", ("task", "since")),
    Watch("papers_paper", "SELECT 'papers' AS scope", _PAPER),
    Watch("papers_paperversion", "SELECT 'papers' AS scope"),
    Watch("papers_announcement", "SELECT 'papers' AS scope"),
    Watch("learning_postingsblock", "SELECT 'papers' AS scope", key="block"),  # what is similar
    Watch(
        "papers_listing",
        "SELECT 'listings' AS scope UNION SELECT 'listings:' || CAST({row}.date AS text)",
        _LISTING,
    ),
    Watch(
        "papers_listing",
        "SELECT 'sample' AS scope WHERE {row}.source = 'sample' OR ({row}.state = 'failed'"
        " AND EXISTS (SELECT 1 FROM papers_listing WHERE source = 'sample'))",
        _LISTING,
    ),
    Watch("summaries_fulltext", _OF_PAPER, ("source", "sections", "share", "reason")),
    Watch("summaries_summary", _OF_PAPER, _SUMMARY),
    Watch("summaries_summary", "SELECT 'gists' AS scope WHERE {row}.gist <> ''", _SUMMARY),
    Watch(
        "summaries_claim",
        "SELECT 'paper:' || paper_id AS scope FROM summaries_summary WHERE id = {row}.summary_id",
    ),
    Watch("claims_tablereading", _OF_PAPER, ("version", "reason")),
    Watch(
        "claims_papertable",
        "SELECT 'paper:' || paper_id AS scope FROM claims_tablereading WHERE id = {row}.reading_id",
    ),
    Watch("claims_reportedvalue", f"{_OF_PAPER} UNION SELECT 'quantities'"),
    Watch("learning_papervector", "SELECT 'vectors' AS scope", key="paper_id"),
    Watch("claims_abstractnumber", f"{_OF_PAPER} UNION SELECT 'quantities' UNION SELECT 'gists'"),
    # Of a profile that is deleted only the row itself is left.
    Watch(
        "digests_profile",
        "SELECT 'profile:' || {row}.slug AS scope UNION SELECT 'profile:' WHERE {row}.is_site"
        " UNION SELECT 'profiles'",
    ),
    Watch(
        "digests_digest",
        _PROFILE.replace("{key}", "{row}.profile_id") + " UNION SELECT 'digests'",
        ("date", "considered", "matched", "fingerprint", "changed_at", "is_sample"),
    ),
    *(
        Watch(
            table,
            _PROFILE.replace(
                "{key}", "(SELECT profile_id FROM digests_digest WHERE id = {row}.digest_id)"
            ),
        )
        for table in ("digests_digestentry", "digests_furthermatches")
    ),
    Watch("digests_learnedmodel", "SELECT 'models' AS scope", ("fingerprint",)),
    Watch("catalog_methodlink", "SELECT 'methods' AS scope"),
    Watch("runs_standingmeasurement", "SELECT 'methods' AS scope"),
    Watch("runs_run", "SELECT 'run:' || replace(CAST({row}.id AS text), '-', '') AS scope", _RUN),
    Watch("runs_run", _RESULT, _RUN),
    *(
        Watch(table, _OF_RUN)
        for table in ("runs_event", "runs_series", "runs_check", "runs_artefact", "runs_runlog")
    ),
    Watch(
        "runs_series",
        "SELECT DISTINCT 'results' AS scope FROM runs_run"
        " WHERE id = {row}.run_id AND state = 'succeeded' AND public",
    ),
    Watch(
        "auth_user",
        "SELECT 'run:' || replace(CAST(id AS text), '-', '') AS scope FROM runs_run"
        " WHERE reader_id = {row}.id UNION SELECT 'results'",
        ("username",),
    ),
    Watch(
        "runs_worker",
        "SELECT 'run:' || replace(CAST(id AS text), '-', '') AS scope FROM runs_run"
        " WHERE worker_id = {row}.id",
        ("name", "device_name"),
    ),
]
