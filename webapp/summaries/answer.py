"""From a model's answer to a validated summary: parse, repair once, else explain the failure."""

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from methods import registry
from webapp.core import sandbox
from webapp.core.sandbox import UnreadableError

from .capability import response_format
from .client import Message, ModelError, Reply
from .normalise import object_in
from .schema import PaperSummary, strict_schema

PROMPT_VERSION = "v4"
_PROMPTS = Path(__file__).parent / "prompts"
_SCHEMA = "The form of your answer, as a json schema:\n\n%s\n\n"
_FENCE = "\n" + 20 * "="  # around the paper's text
SMALL = 24_000  # characters of a question that any model reads
_LANGUAGES = {"en": "English", "zh": "Chinese (简体中文)"}
Ask = Callable[[list[Message], dict[str, Any] | None], Reply]


class UnusableError(ModelError):
    """The model answered, but not with a summary, also after one repair."""


def question(
    title: str, text: str, read: str, language: str, *, enforced: bool = False
) -> list[Message]:
    """The messages that ask for a summary of `text`; `read` describes which part of it is given.

    The schema is part of them unless it is `enforced` by the server, which gets it beside them.
    """
    system = (_PROMPTS / f"{PROMPT_VERSION}.system.txt").read_text()
    user = (_PROMPTS / f"{PROMPT_VERSION}.user.txt").read_text()
    fence = re.compile(r"={5,}")
    fields = {
        "{schema}": ""
        if enforced
        else _SCHEMA % json.dumps(strict_schema(), separators=(",", ":")),
        "{families}": "\n".join(_families()),
        "{title}": fence.sub("====", title),
        "{read}": read,
        "{text}": fence.sub("====", text),  # the paper cannot close its own fence
    }
    filled = re.sub("|".join(map(re.escape, fields)), lambda m: fields[m[0]], user)
    return [
        {"role": "system", "content": system.replace("{language}", _LANGUAGES[language])},
        {"role": "user", "content": filled},
    ]


@cache
def _families() -> tuple[str, ...]:
    """Each method's name with what its family is, what is next to it and what is not."""
    return tuple(
        f"- {method.slug}: {family.what} Next to it, so at most uses: {family.near} "
        f"Not related: {family.outside}"
        for method in registry.all_methods()
        if (family := method.family).what
    )


def parse(text: str) -> PaperSummary:
    """The summary in a model's answer, whatever stands around it.

    Raises ValidationError, with every field that is wrong, where there is none.
    """
    answer = sandbox.run(object_in, text, tuple(PaperSummary.model_fields))
    if answer is None:
        return PaperSummary.model_validate_json(text.strip() or "{")  # says where it is no JSON
    return PaperSummary.model_validate(answer)


def ask_for_summary(
    ask: Ask,
    mode: str,
    messages: list[Message],
    schema: dict[str, Any] | None = None,
    most: int | None = None,
) -> PaperSummary:
    """The model's summary, repaired once if need be.

    `most` is the longest prompt in characters that the model reads, where that is known. Raises
    UnusableError with the reason, or what `ask` raises.
    """
    answer_format = response_format(mode, schema or strict_schema(), "paper_summary")
    conversation = messages
    for _ in range(2):
        reply = ask(conversation, answer_format)
        try:
            return parse(reply.text)
        except ValidationError as error:
            wrong = _explained(error, reply)
        except UnreadableError as error:
            wrong = str(error)
        if reply.cut or not reply.text.strip() or _breaks_off(reply.text):
            break  # the same question, and longer, would end as soon
        conversation = _repair(messages, reply.text[:20_000], wrong, most)
    raise UnusableError(f"the model's answer cannot be used: {wrong}")


def _repair(messages: list[Message], answer: str, wrong: str, most: int | None) -> list[Message]:
    """The question once more, with the answer that cannot be used.

    It is no longer than the first, unless that was small: a context that was full has no room for
    both, so the end of the paper's text goes, and half of it at most.
    """
    system, request = messages
    before, text, after = request["content"].rsplit(_FENCE, 2)
    again = (
        f"That answer cannot be used: {wrong}. "
        "Answer again with the whole json object, corrected, and nothing around it."
    )
    length = sum(len(message["content"]) for message in messages)
    over = length + len(again) - max(length, min(SMALL, most or SMALL))
    answer = answer[: max(len(text) // 2 - over, 0)]
    shortened = text[: len(text) - max(over + len(answer), 0)]
    return [
        system,
        request | {"content": _FENCE.join((before, shortened, after))},
        {"role": "assistant", "content": answer},
        {"role": "user", "content": again},
    ]


def _breaks_off(text: str) -> bool:
    """True if an answer is JSON that ends too early."""
    bare = text.strip().strip("`").strip()
    return bare.startswith("{") and len(bare) > 200 and "}" not in bare[-200:]


def _explained(error: ValidationError, reply: Reply) -> str:
    """Describe the fault of an answer, for the model that is asked again and for the page."""
    if not reply.text.strip():
        return "it is empty"
    if reply.cut:
        return "it was cut off at the server's length limit"
    if _breaks_off(reply.text):
        return "it breaks off in the middle, though the server says that it is whole"
    errors = error.errors(include_url=False, include_input=False, include_context=False)
    places = [f"{'.'.join(map(str, e['loc'])) or 'the answer'}: {e['msg']}" for e in errors[:4]]
    more = f" (and {len(errors) - 4} more)" if len(errors) > 4 else ""
    return "; ".join(places)[:600] + more
