from __future__ import annotations

from django.urls import URLPattern, path

from webapp.ui import views

app_name = "ui"
urlpatterns: list[URLPattern] = [path("keyboard/", views.keyboard, name="keyboard")]
