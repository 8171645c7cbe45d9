"""From what a model wrote to the JSON object it meant: reasoning, wrappings and slips of JSON.

Small models and their servers put reasoning before the answer, a fence or prose around it, TeX
with one backslash into it, and commas where JSON has none. All of that is known before a model is
asked again, and costs nothing to mend.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from itertools import accumulate
from typing import Any

MAX_OBJECTS = 200  # places at which an object is looked for in one answer
MAX_REPAIRED = 200_000  # characters; a summary has at most some thirty thousand
MAX_DEPTH = 50  # of brackets; the repair of deeper answers takes quadratic time
_NAME = r"(?:seed:)?(?:think(?:ing)?|thoughts?|reason(?:ing)?|reflection|analysis|scratchpad)"
# Ends of reasoning: HTML-like, Mistral's, Kimi's, and marks of special tokens.
_CLOSED = re.compile(
    rf"</{_NAME}>|\[/THINK\]|◁/think▷|<\|end_of_thought\|>|<\|/?end_thinking\|>"
    r"|<\|channel\|>\s*final\b[^<]*<\|message\|>|\bassistantfinal\b",
    re.IGNORECASE,
)
_OPENED = re.compile(
    rf"<{_NAME}>|\[THINK\]|◁think▷|<\|begin_of_thought\|>|<\|start_thinking\|>"
    r"|<\|channel\|>\s*(?:analysis|commentary)\b",
    re.IGNORECASE,
)
_BEGINS = re.compile(r"\s{0,20}(?:<\w{1,20}>|```\w{0,8})?\s{0,20}[\[{]")
# A backslash with what follows it, a quotation mark, a dollar.
_ESCAPES = re.compile(r'\\\\\$|\\(?:u[0-9A-Fa-f]{4}|([A-Za-z]+)|.)|["$]', re.DOTALL)


def object_in(text: str, keys: Collection[str]) -> dict[str, Any] | None:
    """The JSON object of an answer that has most of `keys`, repaired if need be; else None.

    Of several the one with most keys counts, of equal ones the last: a model that reasons aloud
    drafts before it answers. An object that was cut off counts only if it has every key.
    """
    text = tex_kept(_unwrapped(text))
    # Marks of reasoning within the words of a whole answer are its words.
    is_whole = text.lstrip().startswith("{")
    answers = [text, *_after_reasoning(text)]
    for answer in answers if is_whole else reversed(answers):
        for read in (_objects, _repaired):
            if (best := _best(read(answer, keys), keys)) is not None:
                return best
    return None


def _unwrapped(text: str) -> str:
    """Return an answer without the string of JSON that some servers put around it."""
    if not text.lstrip().startswith('"'):
        return text
    try:
        inner = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return inner if isinstance(inner, str) else text


def tex_kept(source: str) -> str:
    r"""JSON with TeX's backslashes doubled where a model wrote one: `\times` is never a TAB.

    Doubled are those that JSON does not know (`\alpha`), and those of its `\b \f \n \r \t` that
    begin a macro: the name of a known one, or within dollars any but a line's end.
    """
    parts: list[str] = []
    position, in_formula = 0, False
    for match in _ESCAPES.finditer(source):
        token = match[0]
        parts.append(source[position : match.start()])
        position = match.end()
        if match[0] == "$":
            in_formula = not in_formula
        elif match[0] == '"':
            in_formula = False
        parts.append("\\" + token if _is_tex(token, match[1] or "", in_formula) else token)
    return "".join(parts) + source[position:]


def _is_tex(token: str, name: str, in_formula: bool) -> bool:
    """True if a backslash and the text after it are TeX rather than a JSON escape."""
    if not name:
        return token[0] == "\\" and token[1:2] not in {*'"\\/'} and token[1:2] != "u"
    if name[0] not in "bfnrt":
        return True
    if len(name) == 1:
        return False
    if name[0] == "n":  # also a line's end before a word
        return name in _macros() and (in_formula or len(name) > 3)
    if name[0] == "t":  # also a TAB before a cell
        return in_formula or name in _macros()
    return True  # no text has a backspace, a form feed or a lone carriage return before a letter


@cache
def _macros() -> frozenset[str]:
    """The names of TeX's macros that begin like an escape of JSON that texts may hold."""
    from pylatexenc.latex2text import get_default_latex_context_db  # noqa: PLC0415 - slow

    context = get_default_latex_context_db()
    specs = context.iter_macro_specs(categories=context.categories())
    names = {spec.macroname for spec in specs} | {"nolimits", "textsc", "tfrac", "tilde", "tag"}
    return frozenset(name for name in names if name[:1] in {"n", "t"})


def _after_reasoning(text: str) -> list[str]:
    """Return the text after the last end of reasoning, or before one that never ends."""
    closed = [match.end() for match in _CLOSED.finditer(text)]
    if closed:
        # A mark before an object counts more than one that may be a word of the answer.
        before_json = [end for end in closed if _BEGINS.match(text, end)]
        return [text[(before_json or closed)[-1] :]]
    opened = _OPENED.search(text)
    return [text[: opened.start()]] if opened else []


def _objects(text: str, keys: Collection[str]) -> Iterator[dict[str, Any]]:
    """The outermost JSON objects in a text, in order; `keys` are of no concern to them."""
    decoder = json.JSONDecoder(strict=False)  # line breaks within strings are taken
    position = text.find("{")
    for _ in range(MAX_OBJECTS):
        if position < 0:
            return
        try:
            value, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            end = position + 1
        else:
            yield value
        position = text.find("{", end)


def _repaired(text: str, keys: Collection[str]) -> list[dict[str, Any]]:
    """The object that begins with one of the keys, or the first, with its slips of JSON mended."""
    import json_repair  # noqa: PLC0415 - few answers need it

    names = "|".join(map(re.escape, keys))
    begins = [match.start() for match in re.finditer(rf"\{{\s*[\"'“]?(?:{names})\b", text)]
    start = begins[-1] if begins else text.find("{")
    if start < 0:
        return []
    source = text[start:]
    if len(source) > MAX_REPAIRED or _depth(source) > MAX_DEPTH:
        return []
    try:
        value = json_repair.loads(source, skip_json_loads=True)
    except (ValueError, RecursionError):
        return []
    values = value if isinstance(value, list) else [value]
    objects = [item for item in values if isinstance(item, dict)]
    if "}" not in source or source.rstrip("` \n")[-1:] not in {"}", ")", "."}:
        return [item for item in objects if set(keys) <= item.keys()]
    return objects


def _depth(source: str) -> int:
    """Return the largest number of brackets that are open at once."""
    steps = (1 if sign in "[{" else -1 for sign in source if sign in "[]{}")
    return max(accumulate(steps), default=0)


def _best(candidates: Iterable[dict[str, Any]], keys: Collection[str]) -> dict[str, Any] | None:
    """The last of the candidates with most of the keys, taken out of what wraps it."""
    best, most = None, len(keys) // 2
    for candidate in candidates:
        for inner in (candidate, *_within(candidate)):
            shared = len(inner.keys() & set(keys))
            if shared > most or (best is not None and shared == most):
                best, most = inner, shared
    return best


def _within(wrapping: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The objects directly within another: {"paper_summary": {…}}, {"answer": [{…}]}."""
    for value in wrapping.values():
        for inner in value[:3] if isinstance(value, list) else [value]:
            if isinstance(inner, dict):
                yield inner
