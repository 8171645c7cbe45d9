"""Pages about the site itself."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render


def guide(request: HttpRequest) -> HttpResponse:
    """The rules of scoring and searching, and every key."""
    return render(request, "ui/help.html", {"section": "help"})


def robots(request: HttpRequest) -> HttpResponse:
    """What crawlers may leave alone."""
    return render(request, "ui/robots.txt", content_type="text/plain; charset=utf-8")


def keyboard(request: HttpRequest) -> HttpResponse:
    """Every key and what it does."""
    return render(request, "ui/keyboard.html", {"section": "keyboard"})
