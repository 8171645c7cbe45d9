from django.urls import URLPattern, path

from webapp.ui import views

app_name = "ui"
urlpatterns: list[URLPattern] = [
    path("help/", views.guide, name="help"),
    path("robots.txt", views.robots, name="robots"),
    path("keyboard/", views.keyboard, name="keyboard"),
]
