"""Specifications of methods, and the parameters of a benchmark."""

import math
from dataclasses import replace
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, model_validator

from methods.errors import ParameterError, UnknownNameError
from methods.spec import (
    Answer,
    Benchmark,
    Case,
    Check,
    Claim,
    Comparable,
    Mechanism,
    Method,
    Paper,
    Params,
    parameter,
)


class Sizes(Params):
    n: int = parameter(64, help="length", unit="tokens", ge=1, le=4096, multiple_of=2)
    share: float = parameter(0.1, help="kept", gt=0, lt=1)
    kind: Literal["local", "global"] = parameter("local", help="which heads")
    bits: Literal[2, 4] = parameter(4, help="bits of a code")
    lengths: tuple[Annotated[int, Field(ge=1, le=99)], ...] = parameter(
        (1, 2), help="all lengths", min_length=1, max_length=3
    )
    name: str = parameter("a", help="a word", max_length=3)
    causal: bool = parameter(True, help="no future")

    @model_validator(mode="after")
    def _small(self) -> "Sizes":
        if self.n > 1000 and self.kind == "global":
            raise ValueError("global heads take at most 1000 tokens")
        return self


BENCHMARK = Benchmark(
    slug="latency",
    title="Latency",
    description="",
    params=Sizes,
    presets={"smoke": Sizes(n=2), "full": Sizes()},
    gpu=Sizes(n=4096),
    entry="bench:latency",
)
METHOD = Method(slug="m", title="M", description="", benchmarks=(BENCHMARK,))


def problems(settings: dict[str, Any]) -> list[str]:
    with pytest.raises(ParameterError) as caught:
        BENCHMARK.resolve("smoke", settings)
    return [str(problem) for problem in caught.value.problems]


def test_settings_are_laid_over_the_preset() -> None:
    params = BENCHMARK.resolve(
        "smoke", {"share": "0.5", "lengths": "3,4", "causal": "false", "bits": "2"}
    )
    assert params == Sizes(n=2, share=0.5, lengths=(3, 4), causal=False, bits=2)
    assert BENCHMARK.resolve("full", {"lengths": "[5]"}).lengths == (5,)
    assert BENCHMARK.resolve("full", {"lengths": [5, 6]}).lengths == (5, 6)


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ({"n": "5000"}, ("n: ", "integer from 1 to 4096, a multiple of 2", "given '5000'")),
        ({"n": "3"}, ("multiple of 2", "given '3'")),
        ({"n": "many"}, ("integer", "given 'many'")),
        ({"n": "1e999"}, ("n: ", "given '1e999'")),
        ({"share": "nan"}, ("share: ", "finite", "more than 0, less than 1", "given 'nan'")),
        ({"share": math.inf}, ("share: ", "finite", "given inf")),
        ({"kind": "both"}, ("one of local, global", "given 'both'")),
        ({"lengths": "1,100"}, ("a list of 1 to 3, each: integer from 1 to 99", "'1,100'")),
        ({"lengths": "1,2,3,4"}, ("lengths: ", "1 to 3")),
        ({"lengths": "[1,"}, ("lengths: ", "given '[1,'")),
        ({"name": "abcd"}, ("at most 3 characters", "given 'abcd'")),
        ({"lenghts": "1"}, ("did you mean 'lengths'?", "given '1'")),
        ({"n": "2000", "kind": "global"}, ("at most 1000 tokens", "n='2000', kind='global'")),
        ({"name": "x" * 10_000}, ("...",)),
    ],
)
def test_a_wrong_parameter_says_its_name_its_bounds_and_what_was_given(
    given: dict[str, Any], parts: tuple[str, ...]
) -> None:
    (problem,) = problems(given)
    assert all(part in problem for part in parts), problem
    assert len(problem) < 500


def test_every_wrong_parameter_is_told_at_once() -> None:
    assert len(problems({"n": "0", "share": "2", "what": "1"})) == 3


def test_an_unknown_preset_suggests_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'full'"):
        BENCHMARK.resolve("fulll")


def test_parameters_describe_themselves_for_forms() -> None:
    infos = {info.name: info for info in BENCHMARK.parameters()}
    n = infos["n"]
    assert (n.kind, n.unit, n.help) == ("integer", "tokens", "length")
    assert n.bounds == {"minimum": 1, "maximum": 4096, "multipleOf": 2}
    assert infos["kind"].choices == ("local", "global")
    assert infos["lengths"].many
    assert infos["lengths"].items == (1, 3)
    assert infos["lengths"].bounds == {"minimum": 1, "maximum": 99}
    assert [infos[name].kind for name in ("share", "name", "causal")] == [
        "number",
        "text",
        "boolean",
    ]


@pytest.mark.parametrize(
    ("case", "passed"),
    [
        (Case(1.0, 1.0), True),
        (Case(1.1, 1.0), False),
        (Case(0.9, 1.0, ">="), False),
        (Case(1.0, 1.0, "=="), True),
        (Case(math.nan, 1.0), False),
        (Case(math.nan, 1.0, ">="), False),
        (Case(True, True), True),
        (Case(False, True), False),  # though False <= True
        (Case(math.inf, 1.0, ">="), True),
    ],
)
def test_a_case_meets_its_bound_or_not(case: Case, passed: bool) -> None:
    assert case.passed is passed
    assert (case.strain <= 1) is passed


def test_the_case_furthest_over_its_bound_is_the_worst() -> None:
    cases = [Case(0.1, 1.0), Case(0.9, 1.0), Case(5.0, 1.0), Case(math.nan, 1.0)]
    strains = [case.strain for case in cases]
    assert strains == sorted(strains)


def claim(**more: Any) -> Claim:
    return Claim(id="c", text="t", metric="m", **{"reason": "no hardware is named", **more})


MECHANISM = Mechanism(
    slug="window", title="A window", papers=("2004.05150",), measured={"latency": ("v",)}
)
ANSWER = Answer(benchmark="latency", series="s", variant="v")


@pytest.mark.parametrize(
    "build",
    [
        lambda: replace(METHOD, slug="Bad Slug"),
        lambda: replace(METHOD, benchmarks=(BENCHMARK, BENCHMARK)),
        lambda: replace(METHOD, claims=(claim(), claim())),
        lambda: replace(BENCHMARK, presets={"smoke": Sizes()}),
        lambda: replace(BENCHMARK, entry="os.system"),
        lambda: replace(BENCHMARK, entry="../x:y"),
        lambda: replace(
            METHOD, claims=(claim(answer=Answer(benchmark="x", series="s", variant="v")),)
        ),
        lambda: claim(reason=""),
        lambda: replace(METHOD, mechanisms=(MECHANISM, MECHANISM)),
        lambda: replace(METHOD, mechanisms=(MECHANISM, replace(MECHANISM, slug="other"))),
        lambda: replace(MECHANISM, papers=("arXiv:2004.05150",)),
        lambda: replace(METHOD, mechanisms=(replace(MECHANISM, measured={"x": ("v",)}),)),
        lambda: replace(BENCHMARK, measures={"s": {"quantity": "speed", "stage": "kernel"}}),
        lambda: claim(comparable=Comparable.SAME),
        lambda: Check(name="x y", title="", bound="", entry="a:b"),
        lambda: Paper(arxiv_id="not an id", title="", role="source"),
    ],
)
def test_a_specification_that_contradicts_itself_is_refused(build: Any) -> None:
    with pytest.raises(ValueError):
        build()


def test_a_comparable_claim_names_what_answers_it() -> None:
    method = replace(METHOD, claims=(claim(comparable=Comparable.SAME, answer=ANSWER),))
    assert method.claims[0].answer == ANSWER


def test_a_paper_proposes_a_mechanism_or_none() -> None:
    method = replace(METHOD, mechanisms=(MECHANISM,))
    assert method.proposed_by("2004.05150") == MECHANISM
    assert method.proposed_by("2004.05151") is None
