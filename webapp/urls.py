"""All URLs of the site."""

from django.conf import settings
from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path

from webapp.api.api import api

handler500 = "webapp.operate.views.server_error"

urlpatterns: list[URLPattern | URLResolver] = [
    *(path("", include(f"webapp.{room}.urls")) for room in settings.ROOMS),
    path("api/v1/", api.urls),  # outside the namespace `api`: ninja reverses from the root
    path("admin/", admin.site.urls),
]
