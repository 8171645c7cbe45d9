"""How far a server holds its model to a structure, and how much it reads: learnt, and remembered.

A server may enforce a JSON schema, accept it and ignore it, refuse the field or one of the schema's
keywords, or know nothing of it. So the probe asks for prose under the schema of summaries: only a
server that enforces it answers with JSON of that form. How long a prompt may be is learnt from the
first that is too long.
"""

from collections.abc import Callable, Collection, Set
from dataclasses import replace
from typing import Any

from .client import Message, RefusedError, Reply, Server
from .models import ServerCapability
from .normalise import object_in
from .schema import PaperSummary, bounded_schema, strict_schema

Mode = ServerCapability.Mode
Ask = Callable[[list[Message], dict[str, Any] | None], Reply]
# A token of a paper has three to five characters; one of seven is in no text that was read whole.
LEAST_A_TOKEN, LIKELY_A_TOKEN, MOST_A_TOKEN = 3, 4, 7
MOST_TOKENS = 6_000  # of an answer: the longest summary that the schema allows
FOR_THE_ANSWER = 0.25  # of a context that prompt and answer share


def response_format(mode: str, schema: dict[str, Any], name: str) -> dict[str, Any] | None:
    """The `response_format` that holds an answer to `schema` as far as `mode` allows."""
    if mode == Mode.SCHEMA:
        return {
            "type": "json_schema",
            "json_schema": {"name": name, "strict": True, "schema": schema},
        }
    return {"type": "json_object"} if mode == Mode.OBJECT else None


def mode_of(server: Server, ask: Ask | None = None) -> str:
    """The strictest mode the server was seen to honour; raises ModelError if it cannot be asked.

    `ask` asks a question of the probe, so that it can be counted.
    """
    return _known(server, ask or server.ask).mode


def fitted(server: Server) -> Server:
    """The server with the longest answer that its context has room for, where it is known."""
    known = ServerCapability.objects.filter(base_url=server.base_url, model=server.model).first()
    return _fitted(server, known.context if known else None)


def _fitted(server: Server, context: int | None) -> Server:
    if context is None:
        return server
    return replace(server, most_tokens=min(round(context * FOR_THE_ANSWER), MOST_TOKENS))


def schema_of(server: Server) -> dict[str, Any]:
    """The schema of summaries, with lengths of its texts and lists where they are taken."""
    rows = ServerCapability.objects
    takes = rows.filter(base_url=server.base_url, model=server.model, takes_bounds=True).exists()
    return bounded_schema(fitted(server).most_tokens) if takes else strict_schema()


def prompt_characters(server: Server) -> int | None:
    """The longest prompt that the server reads whole, if one was too long for it."""
    known = ServerCapability.objects.filter(base_url=server.base_url, model=server.model).first()
    return known.prompt_characters if known else None


def learn_prompt(server: Server, characters: float) -> None:
    """Remember that no longer prompt is read whole."""
    known = ServerCapability.objects.filter(base_url=server.base_url, model=server.model)
    known.update(prompt_characters=max(round(characters), 1))


def read_share(reply: Reply, characters: int) -> float:
    """The share of a prompt of so many characters that the server can have read, by its tokens.

    Some servers cut off what their context does not hold, and answer as if nothing had happened.
    """
    if not reply.tokens_in or characters <= reply.tokens_in * MOST_A_TOKEN:
        return 1.0
    return reply.tokens_in * LIKELY_A_TOKEN / characters


def forget(server: Server) -> None:
    """Probe again next time: the server no longer takes what it took."""
    ServerCapability.objects.filter(base_url=server.base_url, model=server.model).delete()


def _known(server: Server, ask: Ask) -> ServerCapability:
    """What is known of the server, which is probed the first time."""
    rows = ServerCapability.objects
    known = rows.filter(base_url=server.base_url, model=server.model).first()
    if known:
        return known
    context, takes_bounds = server.context()
    mode = _probe(ask, bounded_schema(1) if takes_bounds else strict_schema())
    learnt: dict[str, Any] = {"mode": mode, "context": context, "takes_bounds": takes_bounds}
    if context:
        learnt["prompt_characters"] = round(context * (1 - FOR_THE_ANSWER) * LEAST_A_TOKEN)
    return rows.update_or_create(base_url=server.base_url, model=server.model, defaults=learnt)[0]


def _probe(ask: Ask, schema: dict[str, Any]) -> str:
    prose = "In one short sentence: what is a pruner? Leave empty what else you have to fill in."
    wants_json = 'Answer with the json object {"pruner": "one short sentence"}.'
    summary = PaperSummary.model_fields.keys()
    wanted = response_format(Mode.SCHEMA, schema, "paper_summary")
    # The question names none of the schema's fields, so only the schema can have.
    if summary <= _keys(ask, prose, wanted, summary):
        return Mode.SCHEMA
    wanted = response_format(Mode.OBJECT, {}, "")
    return Mode.OBJECT if _keys(ask, wants_json, wanted, {"pruner"}) else Mode.PROMPT


def _keys(
    ask: Ask, question: str, wanted: dict[str, Any] | None, keys: Collection[str]
) -> Set[str]:
    """Those of `keys` that the answer has; none where the field is refused."""
    try:
        answer = ask([{"role": "user", "content": question}], wanted).text
    except RefusedError as error:
        if error.status in {401, 403, 404} or 300 <= error.status < 400:
            raise
        return set()
    return (object_in(answer, keys) or {}).keys()
