from __future__ import annotations

from django.urls import path, register_converter

from webapp.catalog import feeds, views
from webapp.ui.converters import SuffixConverter

register_converter(SuffixConverter, "method_feed")

app_name = "catalog"
urlpatterns = [
    path("methods/", views.methods, name="methods"),
    path("methods/links/<int:pk>/", views.decide, name="decide"),
    path("verdicts.<method_feed:suffix>", feeds.verdicts, name="all-verdicts"),
    path("methods/<slug:slug>.<method_feed:suffix>", feeds.papers, name="papers-feed"),
    path(
        "methods/<slug:slug>/measurements.<method_feed:suffix>",
        feeds.measurements,
        name="measurements-feed",
    ),
    path("methods/<slug:slug>/verdicts.<method_feed:suffix>", feeds.verdicts, name="verdicts-feed"),
    path("methods/<slug:slug>/", views.method, name="method"),
    path("methods/<slug:slug>/code/", views.code, name="code"),
    path("methods/<slug:slug>/documents/", views.documents, name="documents"),
]
