"""Scopes that each table raises. They cover everything that a cached page shows.

papers            any paper, version or announcement
paper:7           what is kept beside the paper with key 7: texts, summaries, claims
listings          what arXiv sent; `listings:2026-03-02` on one day
sample            whether the site shows the sample, and why
profile:mine      a profile and its digests, by its slug; `profile:` is the site's
methods           links from papers to methods, and what stands measured
run:0198c0de…     a run, by its id without hyphens
runs              any run, as the list of runs shows it
results           the public runs that succeeded
gists             what cards, mail and feeds show of summaries and methods
profiles          the profiles that readers see, without their digests
vectors           what an encoder made of papers
digests           any digest
failures          which tasks fail in the background

What waits to be learned of reader 7 is raised as "learn:7", and that feed 3 has changed, or lost a
digest, as "build:3".
"""

from webapp.core.revisions import Watch

# Columns that no page shows: an update of these alone raises nothing. Every other column counts.
_PAPER = ("enrich_tries",)
_LISTING = ("feed_was_empty", "api_empty_on", "etag", "last_modified", "polls", "polled_at")
_SUMMARY = ("lease", "leased_until", "prompt_version", "attempt", "for_reader")
_RUN = (
    *("idempotency_key", "token", "queued_at", "dispatched_at", "sent_at", "start_by"),
    *("leased_until", "finish_by", "cancelling_at", "progress", "progress_seq", "log_bytes"),
    *("charged_on", "charged_seconds"),
)
_FAILURE = ("error", "periodic", "last_at", "times")
_USER = (
    *("password", "last_login", "is_superuser", "first_name", "last_name", "email", "is_staff"),
    *("is_active", "date_joined"),
)
_WORKER = (
    *("key_version", "device", "memory_mib", "versions", "note", "boot", "beat"),
    *("retired_boots", "last_seen"),
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
        work="learn",
        columns=("read_at", "not_for_me", "note", "changed_at"),
    ),
    Watch("library_likedtext", _READER, work="learn"),
    Watch("library_zoteroitem", _READER, work="learn"),
    Watch(
        "library_zoteroreading",
        _READER,
        work="learn",
        columns=("collections", "include", "exclude"),
    ),
    Watch(
        "library_readinglist_papers",
        "SELECT 'learn:' || reader_id AS scope FROM library_readinglist"
        " WHERE id = {row}.readinglist_id",
        work="learn",
    ),
    Watch(
        "digests_profile",
        "SELECT 'learn:' || {row}.owner_id AS scope",  # NULL without an owner
        work="learn",
        columns=("owner_id", "ranking", "learn_from"),
    ),
    Watch(
        "auth_user", "SELECT 'learn:' || {row}.id AS scope", work="learn", columns=("is_active",)
    ),
    # A paper that a Zotero library has; and the first ones, to compare with.
    Watch(
        "papers_paper",
        "SELECT 'learn:' || reader_id AS scope FROM library_zoteroitem"
        " WHERE arxiv_id = {row}.arxiv_id UNION SELECT 'learn:'"
        " WHERE NOT EXISTS (SELECT 1 FROM papers_paper WHERE id < {row}.id)",
        work="learn",
        columns=("arxiv_id",),
    ),
]

# What decides a feed's digests beside the papers of a day.
_BUILDING = [
    Watch(
        "digests_profile",
        "SELECT 'build:' || {row}.id AS scope",
        ("name", "slug", "is_published", "feed_key", "counted_on", "created_at", "updated_at"),
        work="build",
    ),
    Watch(
        "digests_learnedmodel",
        "SELECT 'build:' || id AS scope FROM digests_profile"
        " WHERE owner_id = {row}.reader_id AND learn_from = {row}.source",
        work="build",
        columns=("fingerprint",),
    ),
    Watch(
        "digests_digest",  # which an administrator may delete
        "SELECT 'build:' || {row}.profile_id AS scope",
        work="build",
        events=("delete",),
    ),
]

WATCHES = [
    *_LEARNING,
    *_BUILDING,
    Watch(
        "health_failure", "SELECT 'failures' AS scope", ("error", "periodic", "last_at", "times")
    ),
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
    Watch("summaries_fulltext", _OF_PAPER, ("sha256", "fetched_at")),
    Watch("summaries_summary", _OF_PAPER, _SUMMARY),
    Watch("summaries_summary", "SELECT 'gists' AS scope WHERE {row}.gist <> ''", _SUMMARY),
    Watch("digests_chips", "SELECT 'gists' AS scope"),
    Watch(
        "summaries_claim",
        "SELECT 'paper:' || paper_id AS scope FROM summaries_summary WHERE id = {row}.summary_id",
    ),
    Watch("claims_tablereading", _OF_PAPER, ("read_at",)),
    Watch(
        "claims_papertable",
        "SELECT 'paper:' || paper_id AS scope FROM claims_tablereading WHERE id = {row}.reading_id",
    ),
    Watch("learning_papervector", "SELECT 'vectors' AS scope", key="paper_id"),
    # Of a profile that is deleted only the row itself is left.
    Watch(
        "digests_profile",
        "SELECT 'profile:' || {row}.slug AS scope UNION SELECT 'profile:' WHERE {row}.is_site"
        " UNION SELECT 'profiles'",
    ),
    Watch(
        "digests_digest",
        _PROFILE.replace("{key}", "{row}.profile_id") + " UNION SELECT 'digests'",
        ("liked", "inputs"),
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
    Watch("catalog_methodlink", "SELECT 'methods' AS scope"),
    Watch("runs_standingmeasurement", "SELECT 'methods' AS scope"),
    Watch("runs_run", "SELECT 'run:' || replace(CAST({row}.id AS text), '-', '') AS scope", _RUN),
    Watch("runs_run", "SELECT 'runs' AS scope", _RUN),
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
        _USER,
    ),
    Watch(
        "runs_worker",
        "SELECT 'run:' || replace(CAST(id AS text), '-', '') AS scope FROM runs_run"
        " WHERE worker_id = {row}.id",
        _WORKER,
    ),
]
