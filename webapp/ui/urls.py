from django.urls import URLPattern, path
from django.views.generic import TemplateView

robots = TemplateView.as_view(
    template_name="ui/robots.txt", content_type="text/plain; charset=utf-8"
)

app_name = "ui"
urlpatterns: list[URLPattern] = [
    path("help/", TemplateView.as_view(template_name="ui/help.html"), name="help"),
    path("keyboard/", TemplateView.as_view(template_name="ui/keyboard.html"), name="keyboard"),
    path("robots.txt", robots, name="robots"),
]
