from django.urls import URLPattern, URLResolver, path

from webapp.api import views
from webapp.api.api import api

app_name = "api"
urlpatterns: list[URLPattern | URLResolver] = [
    path("api/docs", views.docs, name="docs"),
    path("account/tokens/", views.account_tokens, name="tokens"),
]
# Beside the rest, outside this namespace: ninja finds its own addresses from the root.
api_urlpatterns: list[URLPattern | URLResolver] = [path("api/v1/", api.urls)]
