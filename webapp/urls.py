"""Every address of the site."""

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path

from webapp.api.urls import api_urlpatterns

handler500 = "webapp.health.views.server_error"

# In this order: the first address that fits is taken.
ROOMS = (
    *("digests", "papers", "library", "mail", "summaries", "catalog"),
    *("runs.web", "readers", "ui", "health", "api"),
)

urlpatterns: list[URLPattern | URLResolver] = [
    *(path("", include(f"webapp.{room}.urls")) for room in ROOMS),
    *api_urlpatterns,
    path("admin/", admin.site.urls),
]
