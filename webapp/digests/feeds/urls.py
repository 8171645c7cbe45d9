"""Where feeds are: the address of a list and a suffix."""

from __future__ import annotations

from django.urls import URLPattern, path, register_converter

from webapp.digests.feeds import views
from webapp.ui.converters import DateConverter, SuffixConverter


class CategoryConverter(SuffixConverter):
    """`cs.CL`, `hep-th`, `cond-mat.str-el`."""

    regex = r"[a-z]+(?:-[a-z]+)?(?:\.[A-Za-z-]{2,10})?"


register_converter(DateConverter, "date")
register_converter(SuffixConverter, "suffix")
register_converter(CategoryConverter, "arxiv_category")

urlpatterns: list[URLPattern] = [
    path("digest.<suffix:suffix>", views.digest, name="feed"),
    path("digest/<date:date>.<suffix:suffix>", views.digest, name="day-feed"),
    path("p/<slug:slug>.<suffix:suffix>", views.digest, name="profile-feed"),
    path("p/<slug:slug>/<date:date>.<suffix:suffix>", views.digest, name="profile-day-feed"),
    path(
        "category/<arxiv_category:category>.<suffix:suffix>",
        views.category,
        name="category-feed",
    ),
    path("search.<suffix:suffix>", views.search, name="search-feed"),
    path("feeds/opml", views.subscriptions, name="opml"),
]
