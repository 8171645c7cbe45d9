"""Every address of the site."""

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path

from webapp.api.urls import api_urlpatterns

handler500 = "webapp.health.views.server_error"

urlpatterns: list[URLPattern | URLResolver] = [
    path("", include("webapp.digests.urls")),
    path("", include("webapp.papers.urls")),
    path("", include("webapp.library.urls")),
    path("", include("webapp.mail.urls")),
    path("", include("webapp.summaries.urls")),
    path("", include("webapp.catalog.urls")),
    path("", include("webapp.runs.web.urls")),
    path("", include("webapp.readers.urls")),
    path("", include("webapp.ui.urls")),
    path("", include("webapp.health.urls")),
    path("", include("webapp.api.urls")),
    *api_urlpatterns,
    path("admin/", admin.site.urls),
]
