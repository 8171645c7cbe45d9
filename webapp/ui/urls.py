from django.urls import URLPattern, path
from django.views.generic import TemplateView

app_name = "ui"


def _page(name: str) -> URLPattern:
    """A page about the site itself: the template of its name."""
    view = TemplateView.as_view(template_name=f"ui/{name}.html", extra_context={"section": name})
    return path(f"{name}/", view, name=name)


_PLAIN = "text/plain; charset=utf-8"
robots = TemplateView.as_view(template_name="ui/robots.txt", content_type=_PLAIN)
urlpatterns = [_page("help"), _page("keyboard"), path("robots.txt", robots, name="robots")]
