"""Pages about the site itself."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render


def keyboard(request: HttpRequest) -> HttpResponse:
    """Every key and what it does."""
    return render(request, "ui/keyboard.html", {"section": "keyboard"})
