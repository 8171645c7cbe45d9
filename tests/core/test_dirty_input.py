"""Every form field takes what a clipboard brings: blanks, line ends, zero-width signs, quotes."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from django import forms
from django.conf import settings
from django.http import QueryDict
from django.test import RequestFactory

from webapp.core.addresses import server_address, zotero_key, zotero_library
from webapp.core.input import CleanInputMiddleware

# Around any text, and around a code, which has no quotes of its own.
AROUND_TEXT = ("  {}", "{}\t ", "\r\n{}\r\n", "{}\u200b", "\ufeff{}", "\u00a0{}\u3000")
AROUND_CODE = (*AROUND_TEXT, '"{}"', "“{}”", "'{}'", "`{}`", "<{}>")
MODULES = ("library.forms", "operate.connecting", "mail.views", "digests.profiles.forms")
MODULES += ("pages.first_steps", "runs.web.forms", "runs.web.listing")
CODES = {
    "ZoteroForm.library": "users/123456",
    "ZoteroForm.key": "AbCdEfGh12345678",
    "ModelForm.base_url": "http://localhost:11434/v1",
    "ModelForm.model": "qwen3:8b",
    "ModelForm.key": "sk-1234",
    "MailForm.host": "mail.example",
}
TEXTS = {
    "EntryForm.note": "See 2601.01002",
    "EntryForm.new_list": "Kernels",
    "ImportForm.text": "2601.01002",
    "MailForm.username": "ada",
    "MailForm.sender": "Assay <assay@site.example>",
    "MailForm.to": "ada@site.example",
    "DeliveryForm.q": "sparse attention",
    "ProfileForm.name": "Mine",
    "ProfileForm.keywords": "sparse attention",
    "ProfileForm.categories": "cs.CL cs.LG",
    "ProfileForm.exclude": "survey",
    "FirstStepsForm.interests": "sparse attention",
    "FirstStepsForm.categories": "cs.CL",
    "RunFilters.method": "sparse_attention",
    "RunFilters.benchmark": "speed",
    "RunForm.key": "abcdef",
}
AS_WRITTEN = {"MailForm.password"}  # it may begin with a blank


def text_fields() -> Iterator[tuple[str, forms.Field]]:
    for module in MODULES:
        for form in vars(import_module(f"webapp.{module}")).values():
            if isinstance(form, type) and issubclass(form, forms.Form):
                for name, field in form.base_fields.items():
                    if isinstance(field, forms.CharField):
                        yield f"{form.__name__}.{name}", field


FIELDS = dict(text_fields())


def test_every_module_with_a_form_is_read() -> None:
    written = {
        ".".join(path.relative_to(settings.BASE_DIR / "webapp").with_suffix("").parts)
        for path in (settings.BASE_DIR / "webapp").rglob("*.py")
        if "(forms.Form)" in path.read_text()
    }
    assert written == set(MODULES)
    assert set(FIELDS) == set(CODES) | set(TEXTS) | AS_WRITTEN


def received(text: str) -> str:
    """A form's value after the middleware."""
    request = RequestFactory().post("/x/", {"field": text})
    CleanInputMiddleware(lambda _: None).process_request(request)  # type: ignore[arg-type,return-value]
    assert isinstance(request.POST, QueryDict)
    return str(request.POST["field"])


@pytest.mark.parametrize("name", [*CODES, *TEXTS])
def test_what_a_clipboard_adds_is_no_part_of_a_text(name: str) -> None:
    clean = (CODES | TEXTS)[name]
    cleaner: Any = {"ZoteroForm.library": zotero_library, "ZoteroForm.key": zotero_key}.get(name)
    cleaner = server_address if name == "ModelForm.base_url" else cleaner
    for around in AROUND_CODE if name in CODES else AROUND_TEXT:
        value = FIELDS[name].clean(received(around.format(clean)))
        assert (cleaner(value) if cleaner else value) == clean, around


def test_full_width_signs_in_codes_are_plain() -> None:
    for name, clean in CODES.items():
        wide = "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in clean)
        cleaner: Any = {"library": zotero_library, "base_url": server_address}.get(
            name.partition(".")[2], zotero_key if name.startswith("Zotero") else str
        )
        assert cleaner(FIELDS[name].clean(wide)) == clean


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("http://localhost:11434", "http://localhost:11434/v1"),
        ("http://localhost:11434/", "http://localhost:11434/v1"),
        ("localhost:11434", "http://localhost:11434/v1"),
        ("http://localhost:11434/api/chat", "http://localhost:11434/v1"),
        ("http://127.0.0.1:8000/v1/chat/completions", "http://127.0.0.1:8000/v1"),
        ("http://[::1]:8000/v1/models", "http://[::1]:8000/v1"),
        ("https://api.openai.com/v1/responses/", "https://api.openai.com/v1"),
        ("api.openai.com", "https://api.openai.com/v1"),
        ("https://x.openai.azure.com", "https://x.openai.azure.com/openai/v1"),
        ("https://x.openai.azure.com/openai/v1/", "https://x.openai.azure.com/openai/v1"),
        (
            "https://x.openai.azure.com/openai/deployments/g/chat/completions?api-version=2024-10-21",
            "https://x.openai.azure.com/openai/v1",
        ),
        ("https://openrouter.ai", "https://openrouter.ai/api/v1"),
        ("https://openrouter.ai/api/v1/chat/completions", "https://openrouter.ai/api/v1"),
        (
            "https://generativelanguage.googleapis.com",
            "https://generativelanguage.googleapis.com/v1beta/openai",
        ),
        ("https://api.anthropic.com/v1/messages", "https://api.anthropic.com/v1"),
        (
            "https://dashscope.example/compatible-mode/v1",
            "https://dashscope.example/compatible-mode/v1",
        ),
        ("HTTP://Host/V2/", "http://host/V2"),
        ("http://h:9000//v1//chat/completions", "http://h:9000/v1"),
        ("http://h:9000/v1。", "http://h:9000/v1"),
        ("http://h:9000/v1,", "http://h:9000/v1"),
        ("http:/h:9000/v1", "http://h:9000/v1"),
        ("http//h:9000", "http://h:9000/v1"),
        ("https：／／h.example／v1", "https://h.example/v1"),
        ("https.example", "https://https.example/v1"),
        ('export OPENAI_BASE_URL="http://h:9000/v1"', "http://h:9000/v1"),
        ("base_url='http://h:9000/v1',", "http://h:9000/v1"),
        ("curl http://h:9000/v1/chat/completions -H 'a: b'", "http://h:9000/v1"),
        (
            "https://x.services.ai.azure.com/models/chat/completions?api-version=2024-05-01-preview",
            "https://x.services.ai.azure.com/openai/v1",
        ),
    ],
)
def test_an_address_is_the_servers_whatever_was_copied_of_it(given: str, address: str) -> None:
    assert server_address(given) == address
    assert server_address(address) == address


@pytest.mark.parametrize("given", ["sk-0123456789abcdef0123", "http://h/v1?key=1"])
def test_a_key_in_the_place_of_an_address_is_told(given: str) -> None:
    with pytest.raises(ValueError, match="without a key, which has a setting of its own"):
        server_address(given)


@pytest.mark.parametrize("given", ["http://a/v1 http://b/v1", "see http://a/v1 or http://b/v1"])
def test_two_addresses_are_none(given: str) -> None:
    with pytest.raises(ValueError, match="write an address"):
        server_address(given)


@pytest.mark.parametrize(
    "given", ["", "ftp://host/v1", "javascript:alert(1)", "http://", "http://host:99999/v1", "a b"]
)
def test_a_refusal_says_what_a_right_address_is(given: str) -> None:
    with pytest.raises(ValueError, match=r"http://localhost:11434/v1"):
        server_address(given)


@pytest.mark.parametrize(
    ("given", "library"),
    [
        ("/users/123", "users/123"),
        ("123", "users/123"),
        ("https://www.zotero.org/groups/123/name", "groups/123"),
        ("https://www.zotero.org/groups/123/name/library", "groups/123"),
        ("https://api.zotero.org/users/123/items?key=abc", "users/123"),
        ("Groups/123", "groups/123"),
    ],
)
def test_a_zotero_library_is_read_from_its_address(given: str, library: str) -> None:
    assert zotero_library(given) == library


@pytest.mark.parametrize("given", ["", "https://www.zotero.org/ada/library", "users/", "groups/x"])
def test_what_names_no_zotero_library_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match="users/123456"):
        zotero_library(given)


def test_a_key_is_taken_out_of_an_address() -> None:
    assert zotero_key("https://api.zotero.org/users/1/items?key=AbC123") == "AbC123"
