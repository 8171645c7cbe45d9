from __future__ import annotations

from django.urls import URLPattern, path

from webapp.digests import views
from webapp.digests.feeds import urls as feed_urls
from webapp.digests.profiles import views as profile_views

app_name = "digests"
urlpatterns: list[URLPattern] = [
    *feed_urls.urlpatterns,
    path("", views.today, name="today"),
    path("digest/", views.archive, name="archive"),
    path("digest/<date:date>/", views.day, name="day"),
    path("p/<slug:slug>/", views.profile, name="profile"),
    path("p/<slug:slug>/<date:date>/", views.profile_day, name="profile-day"),
    path("category/<arxiv_category:category>/", views.category, name="category"),
    path("feeds/", views.feeds, name="feeds"),
    path("profiles/", profile_views.profiles, name="profiles"),
    path("profiles/new/", profile_views.new, name="profile-new"),
    path("profiles/<slug:slug>/", profile_views.edit, name="profile-edit"),
    path("star/", views.star, name="star"),
]
