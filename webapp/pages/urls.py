"""Addresses of the pages that show several apps, each named after the app whose things it shows.

So `papers:paper` is the address of a paper for every app, wherever its page is made.
"""

from django.urls import URLPattern, path

from webapp.pages import account, days, first_steps, library, methods, papers, runs, summaries
from webapp.papers import converters  # noqa: F401 - `arxiv`, `arxiv_category` and `date`
from webapp.ui import converters as _  # noqa: F401 - `method`

app_name = "pages"
urlpatterns = [path("first-steps/", first_steps.first_steps, name="first-steps")]

PAGES_OF: dict[str, list[URLPattern]] = {
    "papers": [
        path("papers/<arxiv:arxiv_id>/", papers.paper, name="paper"),
        path("search", papers.search, name="search"),
        path("intake/", papers.intake, name="intake"),
        path("intake/fetch", papers.fetch_now, name="fetch-now"),
    ],
    "digests": [
        path("", days.digest, name="today"),
        path("digest/<date:date>/", days.digest, name="day"),
        path("p/<slug:slug>/", days.digest, name="profile"),
        path("p/<slug:slug>/<date:date>/", days.digest, name="profile-day"),
        path("category/<arxiv_category:category>/", days.category, name="category"),
        path("feeds/", days.feeds, name="feeds"),
    ],
    "catalog": [
        path("methods/", methods.methods, name="methods"),
        path("methods/<method:method>/", methods.method, name="method"),
    ],
    "runs": [
        path("runs/", runs.runs, name="runs"),
        path("runs/<uuid:pk>/", runs.run, name="run"),
        path("runs/<uuid:pk>/live", runs.live, name="live"),
        path("methods/<slug:method>/run/<slug:benchmark>/", runs.ask, name="ask"),
        path("papers/<arxiv:arxiv_id>/run/<method:method>/", runs.of_paper, name="of-paper"),
    ],
    "summaries": [
        path("summaries/<date:date>/", summaries.day, name="day"),
        path("summaries/<date:date>/again", summaries.again, name="again"),
    ],
    "library": [
        path("library/", library.library, name="library"),
        path("lists/<str:key>/", library.shared_list, name="shared"),
    ],
    "readers": [path("account/", account.account, name="account")],
}
