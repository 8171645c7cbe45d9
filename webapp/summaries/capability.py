"""Capabilities of a server, probed and remembered: structured output and the longest prompt.

A server may enforce a JSON schema, accept it and ignore it, refuse the field or one of the schema's
keywords, or know nothing of it. So the probe asks for prose under the schema of summaries: only a
server that enforces it answers with JSON of that form. How long a prompt may be is learnt from the
first that is too long.
"""

import re
from collections.abc import Callable, Collection, Set
from dataclasses import asdict, replace
from typing import Any

from django.conf import settings
from django.db.models import QuerySet

from .client import Message, RefusedError, Reply, Server
from .models import ServerCapability
from .normalise import object_in
from .schema import PaperSummary, bounded_schema, strict_schema

Mode = ServerCapability.Mode
Ask = Callable[[list[Message], dict[str, Any] | None], Reply]
# A token of a paper has three to five characters; one of seven is in no text that was read whole.
LEAST_A_TOKEN, LIKELY_A_TOKEN, MOST_A_TOKEN = 3, 4, 7
MOST_TOKENS = 6_000  # of an answer: the longest summary that the schema allows
CONTEXTS = 1024  # tokens, of which contexts are multiples
# Text that makes at least one token: a word with the sign before it, digits, signs.
_WORDS = re.compile(r"[^\w\s]?[^\W\d_]+|\d+|[^\w\s]+")
FOR_THE_ANSWER = 0.25  # of a context that prompt and answer share


def response_format(mode: str, schema: dict[str, Any], name: str) -> dict[str, Any] | None:
    """The `response_format` that holds an answer to `schema` as far as `mode` allows."""
    if mode == Mode.SCHEMA:
        return {
            "type": "json_schema",
            "json_schema": {"name": name, "strict": True, "schema": schema},
        }
    return {"type": "json_object"} if mode == Mode.OBJECT else None


def find_mode(server: Server, ask: Ask | None = None) -> str:
    """The strictest mode the server was seen to honour; raises ModelError if it cannot be asked.

    `ask` asks a question of the probe, so that it can be counted.
    """
    return _probed(server, ask or server.ask).mode


def fitted(server: Server) -> Server:
    """Return the server with the longest answer that fits its context, if that is known."""
    row = stored(server)
    if row is None or row.context is None:
        return server
    return replace(server, most_tokens=min(round(row.context * FOR_THE_ANSWER), MOST_TOKENS))


def summary_schema(server: Server) -> dict[str, Any]:
    """The schema of summaries, with lengths of its texts and lists where they are taken."""
    row = stored(server)
    takes_bounds = row is not None and row.takes_bounds
    return bounded_schema(fitted(server).most_tokens) if takes_bounds else strict_schema()


def concurrency(server: Server) -> int:
    """The summaries that may be made at the same time: what the settings or the server say."""
    most: int = settings.SUMMARY_PROCESSES
    if settings.SUMMARY_CONCURRENCY:
        return int(settings.SUMMARY_CONCURRENCY)
    if row := stored(server):
        return min(row.slots or most, most)
    return 1 if server.is_here else most


def prompt_characters(server: Server) -> int | None:
    """The longest prompt that the server reads whole, if one was too long for it."""
    row = stored(server)
    return row.prompt_characters if row else None


def learn_prompt(server: Server, characters: float) -> None:
    """Remember that no longer prompt is read whole."""
    _rows(server).update(prompt_characters=max(round(characters), 1))


def read_share(tokens: int, prompt: str) -> float:
    """Return the share of a prompt that the server can have read, by its token count.

    Some servers cut off the part that exceeds their context, and answer as if nothing had happened:
    then the tokens are those of a whole context, or fewer than the prompt's words.
    """
    likely = len(prompt) / LIKELY_A_TOKEN
    if not 0 < tokens < likely:
        return 1.0
    is_full = tokens % CONTEXTS == 0
    is_cut = is_full or len(prompt) > tokens * MOST_A_TOKEN or tokens < len(_WORDS.findall(prompt))
    return tokens / likely if is_cut else 1.0


def forget(server: Server) -> None:
    """Probe again next time, because the server no longer accepts what it accepted before."""
    _rows(server).delete()


def stored(server: Server) -> ServerCapability | None:
    """Return what was learnt of a server, or None before it was first asked."""
    return _rows(server).first()


def _rows(server: Server) -> QuerySet[ServerCapability]:
    return ServerCapability.objects.filter(base_url=server.base_url, model=server.model)


def _probed(server: Server, ask: Ask) -> ServerCapability:
    """Return the capabilities of the server, which is probed the first time."""
    if row := stored(server):
        return row
    profile = server.profile()
    mode = _probe(ask, bounded_schema(1) if profile.takes_bounds else strict_schema())
    learnt: dict[str, Any] = {"mode": mode, **asdict(profile)}
    if profile.context:
        learnt["prompt_characters"] = round(profile.context * (1 - FOR_THE_ANSWER) * LEAST_A_TOKEN)
    return ServerCapability.objects.update_or_create(
        base_url=server.base_url, model=server.model, defaults=learnt
    )[0]


def _probe(ask: Ask, schema: dict[str, Any]) -> str:
    prose = "In one short sentence: what is a pruner? Leave empty what else you have to fill in."
    wants_json = 'Answer with the json object {"pruner": "one short sentence"}.'
    summary = PaperSummary.model_fields.keys()
    answer_format = response_format(Mode.SCHEMA, schema, "paper_summary")
    # The question names none of the schema's fields, so only the schema can have.
    if summary <= _keys(ask, prose, answer_format, summary):
        return Mode.SCHEMA
    answer_format = response_format(Mode.OBJECT, {}, "")
    return Mode.OBJECT if _keys(ask, wants_json, answer_format, {"pruner"}) else Mode.PROMPT


def _keys(
    ask: Ask, question: str, answer_format: dict[str, Any] | None, keys: Collection[str]
) -> Set[str]:
    """Return those of `keys` that the answer has; none if the field is rejected."""
    try:
        answer = ask([{"role": "user", "content": question}], answer_format).text
    except RefusedError as error:
        if error.status in {401, 403, 404} or 300 <= error.status < 400:
            raise
        return set()
    return (object_in(answer, keys) or {}).keys()
