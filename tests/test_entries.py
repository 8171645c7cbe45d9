"""Every place where text of others comes in, and which test holds that it is cleaned there.

What is not seen, hides or reorders (`assay_common.text.clean`) must not be stored. Requests are
cleaned before any view reads them; each place that reads something else by itself is listed here
with the test that sends it such text. A new place fails until it has one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.apps import apps
from django.test import Client

from assay_common.text import clean
from tests import factories
from tests.processes import ROOT
from webapp.api import tokens

READS = re.compile(
    r"request\.(?:body|FILES|META|COOKIES)\b|request\.headers\b(?!\.get\(\"(?:HX-Request|Accept)\")"
    r"|json\.loads?\(|validate_json\(|model_validate\(|feedparser\.parse\(|\.json\(\)"
    r"|\bhtml\.\w*fromstring\(|PdfReader\(|httpx2\.(?:get|post|stream|Client)\(|\burlopen\("
)
READERS = "test_entries.py::test_nothing_hidden_that_a_reader_sends_is_stored"
ENCODER = "learning/test_encoder.py::test_an_answer_that_is_none_is_an_error"  # takes numbers
NEARBY = "summaries/test_profiles.py::test_names_of_models_nearby_are_clean"
HIDDEN_TEXT = "test_hidden_text.py::test_of_"
OWN = "what this site or its operator wrote, read again"
IMPORTS = "library/test_import_escapes.py::test_an_escape_breaks_no_import"
ENTRIES = {
    "webapp/api/assistants.py": OWN,
    "webapp/api/tokens.py": "api/test_hostile_input.py::test_no_input_breaks_a_page",
    "webapp/core/connections.py": OWN,
    "webapp/digests/packed.py": OWN,
    "webapp/digests/profiles/defaults.py": OWN,
    "webapp/digests/profiles/seed_config.py": OWN,
    "webapp/digests/profiles/validation.py": READERS,
    "webapp/digests/profiles/views.py": (
        "digests/profiles/test_import.py::test_nothing_hidden_in_a_config_is_stored"
    ),
    "webapp/catalog/paper_methods.py": OWN,
    "webapp/operate/views.py": "test_proxy.py::test_a_refused_form_says_what_to_do",
    "webapp/learning/encoder.py": ENCODER,
    "webapp/learning/linear.py": OWN,
    "webapp/learning/minilm.py": OWN,
    "webapp/learning/tfidf.py": OWN,
    "webapp/library/references.py": IMPORTS,
    "webapp/library/views.py": IMPORTS,
    "webapp/library/zotero.py": f"{HIDDEN_TEXT}a_library_at_zotero",
    "webapp/core/limits.py": "test_limits.py::test_whose_request_it_is",
    "webapp/operate/tar_backup.py": (
        "operate/test_archive.py::test_backups_of_the_first_version_are_restored"
    ),
    "webapp/operate/local_model.py": OWN,
    "webapp/operate/trials.py": NEARBY,
    "webapp/operate/archive.py": (
        "operate/test_archive.py::test_a_broken_or_hostile_file_is_one_sentence_and_changes_nothing"
    ),
    "webapp/papers/fetch.py": f"{HIDDEN_TEXT}a_feed",
    "webapp/papers/latexml/text.py": f"{HIDDEN_TEXT}a_page_of_arxiv_and_a_model",
    "webapp/papers/formats.py": f"{HIDDEN_TEXT}a_feed",
    "webapp/papers/search/words.py": OWN,
    "webapp/runs/models.py": OWN,
    "webapp/runs/record.py": "runs/test_record.py::test_malformed",
    "webapp/runs/web/run_page.py": OWN,
    "webapp/runs/web/views.py": OWN,
    "webapp/summaries/answer.py": f"{HIDDEN_TEXT}a_page_of_arxiv_and_a_model",
    "webapp/summaries/client.py": f"{HIDDEN_TEXT}a_page_of_arxiv_and_a_model",
    "webapp/summaries/normalise.py": f"{HIDDEN_TEXT}a_page_of_arxiv_and_a_model",
    "webapp/summaries/summarise.py": OWN,
    "webapp/summaries/pdf_text.py": f"{HIDDEN_TEXT}a_pdf",
    "webapp/summaries/render.py": OWN,
    "webapp/summaries/schema.py": f"{HIDDEN_TEXT}a_page_of_arxiv_and_a_model",
    "webapp/ui/encodings.py": "ui/test_pages.py::test_the_client_chooses_the_encoding",
    "webapp/core/input.py": "ui/test_input.py::test_a_view_is_given_clean_texts",
    "webapp/core/json_lines.py": "api/test_hostile_input.py::test_no_input_breaks_a_page",
    "webapp/ui/pages.py": OWN,
    "webapp/ui/personal.py": OWN,
}


def test_every_place_that_reads_is_listed_with_its_test() -> None:
    reading = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "webapp").rglob("*.py")
        if READS.search(path.read_text())
    }
    assert reading == ENTRIES.keys()
    for where in ENTRIES.values():
        file, _, test = where.partition("::")
        assert where == OWN or f"def {test}(" in (ROOT / "tests" / file).read_text(), where


HIDDEN = "a\x00b\u202ec\u200bd\x1b[31me"


def texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from (*texts(name), *texts(inner))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from texts(inner)


def stored() -> Iterator[tuple[str, str]]:
    """Every text in the database, with where it is."""
    for model in apps.get_models(include_auto_created=True):
        for row in model._base_manager.values():
            for name, value in row.items():
                yield from ((f"{model._meta.label}.{name}", text) for text in texts(value))


@pytest.mark.django_db
def test_nothing_hidden_that_a_reader_sends_is_stored(client: Client) -> None:
    reader = factories.make_reader("ada")
    paper = factories.make_paper(1)
    client.force_login(reader)
    form: dict[str, Any] = {"name": HIDDEN, "scopes": "library", "note": HIDDEN}
    for address in ("/account/tokens/", f"/library/{paper.arxiv_id}/", "/feeds/new/"):
        client.post(address, {**form, "keywords": HIDDEN, "categories": "cs.LG", "list": HIDDEN})
    token = tokens.make(reader, "program", ["library"])
    body = json.dumps({"note": HIDDEN, "lists": [HIDDEN + "\ud800"], "saved": True})
    answer = client.patch(
        f"/api/v1/library/{paper.arxiv_id}",
        body,
        "application/json",
        headers={"Authorization": f"Bearer {token}"},
    )
    assert answer.status_code == 200, answer.content
    kept = list(stored())
    told = {where for where, text in kept if "abcde" in text}
    assert {"api.Token.name", "library.LibraryEntry.note", "library.ReadingList.name"} <= told
    assert [where for where, text in kept if clean(text) != text.replace("\r\n", "\n")] == []


def test_the_check_sees_what_is_hidden() -> None:
    assert [text for text in texts({"a": [HIDDEN]}) if clean(text) != text] == [HIDDEN]
