from django.urls import URLPattern, path

from webapp.api import views

app_name = "api"
urlpatterns: list[URLPattern] = [
    path("api/docs", views.docs, name="docs"),
    path("account/tokens/", views.account_tokens, name="tokens"),
]
