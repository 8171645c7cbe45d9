"""Addresses of digests; a feed has the address of its list and a suffix."""

from django.urls import URLPattern, path

from webapp.digests import feeds, views
from webapp.digests.profiles import views as profiles
from webapp.papers import converters  # noqa: F401 - `arxiv`, `arxiv_category`, `date` and `suffix`

app_name = "digests"
urlpatterns: list[URLPattern] = [
    path("digest.<suffix:suffix>", feeds.digest, name="feed"),
    path("digest/<date:date>.<suffix:suffix>", feeds.digest, name="day-feed"),
    path("p/<slug:slug>.<suffix:suffix>", feeds.digest, name="profile-feed"),
    path("p/<slug:slug>/<date:date>.<suffix:suffix>", feeds.digest, name="profile-day-feed"),
    path(
        "category/<arxiv_category:category>.<suffix:suffix>", feeds.category, name="category-feed"
    ),
    path("search.<suffix:suffix>", feeds.search, name="search-feed"),
    path("feeds/opml", feeds.opml_of_feeds, name="opml"),
    path("papers/<arxiv:arxiv_id>/why-not/", views.why_not, name="why-not"),
    path("digest/", views.archive, name="archive"),
    path("feeds/new/", profiles.new, name="profile-new"),
    path("feeds/import/", profiles.import_config, name="profile-import"),
    path("feeds/<slug:slug>/", profiles.edit, name="profile-edit"),
    # The addresses of 0.1.0.
    path("profiles/", profiles.moved, name="moved"),
    path("profiles/<path:place>", profiles.moved, name="moved"),
]
