"""Escapes in an import hold characters that no database takes: they go, the papers stay."""

from __future__ import annotations

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from tests import factories
from webapp.library.models import LikedText

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "escape", [r"\ud800", r"\u0000", r"\udfff\ud800", r"\u202e", r"\u001b[31m"]
)
@pytest.mark.parametrize("as_file", [False, True])
def test_an_escape_breaks_no_import(escape: str, as_file: bool) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(factories.make_reader())
    text = f'[{{"title": "Kept {escape}title", "abstract": "An {escape}abstract"}}]'
    file = SimpleUploadedFile("library.json", text.encode())
    sent = {"text": "", "file": file} if as_file else {"text": text}
    assert client.post("/library/import/", sent).status_code == 200
    kept = LikedText.objects.get()
    assert (kept.title, kept.abstract) == ("Kept title", "An abstract")
