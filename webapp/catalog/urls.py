from __future__ import annotations

from django.urls import path

from webapp.catalog import views

app_name = "catalog"
urlpatterns = [
    path("methods/", views.methods, name="methods"),
    path("methods/links/<int:pk>/", views.decide, name="decide"),
    path("methods/<slug:slug>/", views.method, name="method"),
    path("methods/<slug:slug>/code/", views.code, name="code"),
]
