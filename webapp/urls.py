"""Every address of the site."""

from django.conf import settings
from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path

from webapp.api.urls import api_urlpatterns

handler500 = "webapp.health.views.server_error"

ELSEWHERE = {"runs": "runs.web"}  # where a room's addresses are, if not in `urls`

urlpatterns: list[URLPattern | URLResolver] = [
    *(path("", include(f"webapp.{ELSEWHERE.get(room, room)}.urls")) for room in settings.ROOMS),
    *api_urlpatterns,
    path("admin/", admin.site.urls),
]
