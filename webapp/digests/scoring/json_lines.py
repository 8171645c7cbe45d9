"""JSON lines of papers, to be scored one by one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, StringConstraints, ValidationError

from webapp.digests.scoring.scorer import Candidate
from webapp.digests.scoring.terms import normalise
from webapp.papers.models import AnnounceType

MAX_LINE = 4 << 20  # bytes


def _normalised(value: object) -> object:
    return normalise(value) if isinstance(value, str) else value


Text = Annotated[str, BeforeValidator(_normalised)]


class PaperLine(BaseModel):
    """A paper as a line gives it; further fields are let pass."""

    id: Annotated[Text, StringConstraints(min_length=1, max_length=200)]
    title: Annotated[Text, StringConstraints(max_length=100_000)]
    abstract: Annotated[Text, StringConstraints(max_length=1_000_000)]
    categories: tuple[str, ...] = ()
    announce_type: AnnounceType = AnnounceType.NEW


def papers_in(lines: Iterable[bytes], on_error: Callable[[int, str], None]) -> Iterator[Candidate]:
    """The papers of `lines`, in their order; empty lines are nothing.

    `on_error` gets the number of a line that is none, and why; it costs only itself.
    """
    for number, raw in enumerate(lines, 1):
        if not raw.strip():
            continue
        try:
            line = _parse(raw)
        except ValueError as error:
            on_error(number, str(error))
            continue
        yield Candidate(**line.model_dump())


def _parse(raw: bytes) -> PaperLine:
    """A line as a paper. Raises ValueError, with what is wrong in words."""
    if len(raw) > MAX_LINE:
        raise ValueError(f"is longer than {MAX_LINE:,} bytes")
    try:
        # Python's parser, because it lets lone surrogates through, which arXiv's own data has.
        return PaperLine.model_validate(json.loads(raw.decode("utf-8-sig")))
    except RecursionError:
        raise ValueError("nests too deep") from None
    except ValidationError as error:
        problems = (
            f"{'.'.join(map(str, one['loc'])) or 'the line'}: {one['msg']}"
            for one in error.errors(include_url=False, include_input=False)
        )
        raise ValueError("; ".join(problems)) from None
    except ValueError as error:
        raise ValueError(f"is not JSON: {error}") from None
