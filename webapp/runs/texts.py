"""What methods say of themselves in other languages: `texts.zh.toml` beside a method's spec."""

import tomllib
from collections.abc import Mapping
from functools import cache

from methods import registry
from webapp.ui.language import current_language


def said(text: str) -> str:
    """A text of a spec in the language of the page; as it is where that does not have it.

    Texts are known by what they say in English, so one that has changed is shown in English until
    its translation follows.
    """
    return _texts(current_language()).get(_key(text), text) if text else text


@cache
def _texts(language: str) -> Mapping[str, str]:
    """The texts of all methods in a language, by their English words."""
    files = (registry.folder(slug) / f"texts.{language}.toml" for slug in registry.slugs())
    read = [tomllib.loads(file.read_text("utf-8")) for file in files if file.is_file()]
    return {_key(english): text for texts in read for english, text in texts.items()}


def _key(text: str) -> str:
    return " ".join(text.split())
