"""Translations of methods' texts, from `texts.zh.toml` beside a method's spec."""

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from django.utils.translation import gettext, gettext_lazy, ngettext

from methods import registry
from methods.protocol import Series
from webapp.ui.language import current_language

_NAMED = re.compile(r"\{(\w[^}]*)\}")  # words that a run puts into a text: `{words}`
_TRADEMARKS = re.compile(r"\((?:R|TM)\)| Processor\b| CPU @ [\d.]+ ?GHz")
_FLAG_LABELS = {"stolen time": gettext_lazy("CPU taken by other VMs")}
_Patterns = tuple[tuple[re.Pattern[str], list[str], str], ...]


def translate_spec(text: str) -> str:
    """Return a text of a spec or chart in the page's language, or as it is if untranslated.

    Texts are keyed by their English, so a changed text is shown in English until its translation
    follows. Words inserted into a text are looked up as well.
    """
    texts, patterns = _texts(current_language())
    if not texts:
        return text
    plain = " ".join(text.split())
    if plain in texts:
        return texts[plain]
    for pattern, names, translation in patterns:
        if match := pattern.fullmatch(plain):
            values = dict(zip(names, map(translate_spec, match.groups()), strict=True))
            return _NAMED.sub(lambda place: values[place[1]], translation)  # noqa: B023
    return text


def in_language(series: Series) -> Series:
    """A series with its words in the language of the page; numbers and symbols of units stay."""
    if not _texts(current_language())[0]:
        return series

    def labelled(part: Any) -> Any:  # an axis, a variant or a limit
        shown = {
            name: translate_spec(getattr(part, name))
            for name in ("label", "unit")
            if hasattr(part, name)
        }
        return part.model_copy(update=shown)

    labels = {
        name: translate_spec(getattr(series, name)) for name in ("title", "caption", "estimator")
    }
    parts = {name: labelled(getattr(series, name)) for name in ("x", "y")}
    lists = {name: tuple(map(labelled, getattr(series, name))) for name in ("variants", "limits")}
    points = tuple(
        point.model_copy(update={"x": translate_spec(point.x)})
        if isinstance(point.x, str)
        else point
        for point in series.points
    )
    return series.model_copy(update=labels | parts | lists | {"points": points})


def hardware_name(name: str) -> str:
    """Return a class of hardware in the language of the page, without trademarks.

    "Intel(R) Xeon(R) Processor, 2 cores" is "Intel Xeon, 2 cores".
    """
    plain = _TRADEMARKS.sub("", name)
    machine, _, cores = plain.rpartition(", ")
    if match := re.fullmatch(r"(\d+) cores?", cores):
        count = int(match[1])
        text = ngettext("%(machine)s, %(count)d core", "%(machine)s, %(count)d cores", count)
        return text % {"machine": machine, "count": count}
    return gettext(plain)


def flag_label(flag: str) -> str:
    """The name that pages give a doubt about a measurement."""
    return str(_FLAG_LABELS.get(flag) or gettext(flag))


@cache
def _texts(language: str) -> tuple[Mapping[str, str], _Patterns]:
    """The texts of all methods by their English words, and those that a run puts words into."""
    folders = [Path(registry.__file__).parent, *map(registry.folder, registry.slugs())]
    files = [folder / f"texts.{language}.toml" for folder in folders]
    read = [tomllib.loads(file.read_text("utf-8")) for file in files if file.is_file()]
    texts = {" ".join(english.split()): text for texts in read for english, text in texts.items()}
    patterns = (
        (re.compile("(.{1,80}?)".join(map(re.escape, _NAMED.split(english)[::2]))), names, text)
        for english, text in texts.items()
        if (names := _NAMED.findall(english))
    )
    return texts, tuple(patterns)
