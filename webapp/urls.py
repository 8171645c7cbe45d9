"""All URLs of the site."""

from importlib import import_module
from importlib.util import find_spec

from django.conf import settings
from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path

from webapp.api.api import api
from webapp.pages.urls import PAGES_OF

handler500 = "webapp.operate.views.server_error"


def _app_urls(app: str) -> URLResolver:
    """Return an app's own URLs, with those of pages about its objects that show other apps too."""
    urls = import_module(f"webapp.{app}.urls")
    return path("", include(([*PAGES_OF.get(app, []), *urls.urlpatterns], urls.app_name)))


urlpatterns: list[URLPattern | URLResolver] = [
    *(_app_urls(app) for app in settings.ROOMS if find_spec(f"webapp.{app}.urls")),
    path("api/v1/", api.urls),  # outside the namespace `api`: ninja reverses from the root
    path("admin/", admin.site.urls),
]
