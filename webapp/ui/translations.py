"""The catalogues of translations: what they lack, and the files that Django reads of them.

A `.po` file is committed and its `.mo` is made from it, where the site starts and in the image. A
message without a translation is shown in English.
"""

import ast
import importlib
import logging
import pkgutil
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from django.apps import apps
from django.forms.forms import BaseForm
from django.forms.utils import pretty_name
from django.template import engines
from django.utils.translation.template import templatize

import webapp
from assay_common.files import write_whole
from webapp.core.hooks import NamedHooks

if TYPE_CHECKING:
    from polib import POFile

FOLDER = Path(webapp.__path__[0])
MARKS = {"_", "gettext", "gettext_lazy", "ngettext", "gettext_noop"}
_CALL = re.compile(
    r"\b_?n?p?(?:gettext)?\(\s*u?(?P<first>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')"
    r"(?:,\s*u?(?P<second>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'))?"
)

log = logging.getLogger(__name__)
Messages = dict[str, tuple[str, str]]  # by message: its plural or "", and where it is used
# Messages that an app makes, with their place, by the app's name.
sources = NamedHooks[[], Iterable[tuple[str, str]]]()


class CatalogueError(Exception):
    """A catalogue is not valid; the message names the file and the line."""


def catalogues() -> list[Path]:
    """The `.po` file of each language."""
    return sorted(FOLDER.glob("locale/*/LC_MESSAGES/django.po"))


def read(catalogue: Path) -> "POFile":
    """Read a catalogue. Raises CatalogueError if its syntax or encoding is wrong."""
    import polib  # noqa: PLC0415 - only after a change

    try:
        return polib.pofile(str(catalogue), wrapwidth=0)
    except (OSError, ValueError, LookupError) as error:  # polib's own errors are OSErrors
        raise CatalogueError(f"{catalogue} cannot be read: {error}") from error


def compile_catalogue(source: Path) -> None:
    """Make the `.mo` of a `.po` if it is missing or older. Raises CatalogueError and OSError."""
    target = source.with_suffix(".mo")
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        write_whole(target, read(source).to_binary())


def compile_catalogues() -> None:
    """Make every `.mo` that is missing or older; several processes may at once.

    The site starts without a translation that cannot be made.
    """
    for source in catalogues():
        try:
            compile_catalogue(source)
        except CatalogueError as error:
            log.warning("Not translated anew, correct this file: %s", error)
        except OSError as error:
            target = source.with_suffix(".mo")
            log.warning("%s cannot be written, so pages are in English: %s", target, error)


def used() -> Messages:
    """Every message of a template, the Python code, a form, a choice of a model or an app."""
    messages: Messages = {}
    held = (*_in_templates(), *_in_code(), *_in_forms(), *_in_choices())
    made = ((message, "", place) for name in sources for message, place in sources[name]())
    for message, plural, place in (*held, *made):
        if message.strip():
            messages.setdefault(message, (plural, place))
    return messages


def lacking(catalogue: Path) -> Messages:
    """The messages in use that a catalogue does not translate."""
    translated = {entry.msgid for entry in read(catalogue).translated_entries()}
    return {message: about for message, about in used().items() if message not in translated}


def _in_templates() -> Iterator[tuple[str, str, str]]:
    for name in engines["django"].dirs:
        folder = Path(name)
        for path in sorted(folder.rglob("*.*")):
            place = str(path.relative_to(folder.parent))
            for call in _CALL.finditer(templatize(path.read_text(), origin=place)):
                plural = ast.literal_eval(call["second"]) if call["second"] else ""
                yield ast.literal_eval(call["first"]), plural, place


def _in_code() -> Iterator[tuple[str, str, str]]:
    for path in sorted(FOLDER.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in MARKS:
                texts = [str(word.value) for word in node.args if isinstance(word, ast.Constant)]
                if texts:  # else a variable, whose words stand elsewhere
                    plural = texts[1] if len(texts) > 1 else ""
                    yield texts[0], plural, f"{path.relative_to(FOLDER.parent)}:{node.lineno}"


def _in_forms() -> Iterator[tuple[str, str, str]]:
    """Labels and helps: Django makes a label of a name where none is written."""
    for module in pkgutil.walk_packages(webapp.__path__, "webapp."):
        if ".migrations" not in module.name and module.name != "webapp.wsgi":
            importlib.import_module(module.name)
    for form in _below(BaseForm):
        for name, field in getattr(form, "base_fields", {}).items():
            is_shown = re.match(r"webapp\.(?!.*\badmin$)", form.__module__)
            if is_shown and not field.widget.is_hidden:
                place = f"{form.__module__}.{form.__qualname__}"
                yield str(field.label or pretty_name(name)), "", place
                yield str(field.help_text), "", place


def _below(kind: type[BaseForm]) -> Iterator[type[BaseForm]]:
    for form in kind.__subclasses__():
        yield form
        yield from _below(form)


def _in_choices() -> Iterator[tuple[str, str, str]]:
    for model in apps.get_models():
        if model.__module__.startswith("webapp."):
            for field in model._meta.get_fields():
                for _, label in getattr(field, "flatchoices", ()):
                    yield str(label), "", f"{model.__module__}.{model.__name__}.{field.name}"
