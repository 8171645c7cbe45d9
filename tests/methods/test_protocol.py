"""Nothing malformed, oversized or unsigned gets past the protocol."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from methods.protocol import (
    MAX_LOG_BYTES,
    Artefact,
    Axis,
    Cancelled,
    CheckResult,
    Environment,
    Event,
    Failed,
    Job,
    Limit,
    Limits,
    Line,
    Log,
    Point,
    Progress,
    ProtocolError,
    Ratio,
    Result,
    Series,
    Started,
    Variant,
    canonical,
    clean,
    one_line,
    parse_body,
    seal,
    unseal,
)
from methods.protocol.messages import MAX_JOB_BYTES

KEY, OTHER_KEY = b"k" * 32, b"o" * 32


def point(**more: Any) -> Point:
    values = {"variant": "a", "x": 1.0, "samples": (1.0, 2.0), "median": 1.5, "q1": 1.0, "q3": 2.0}
    return Point(**{**values, "low": 1.2, "high": 1.8, **more})


def series(**more: Any) -> Series:
    values = {
        "name": "s",
        "title": "Time",
        "x": Axis(label="n", scale="log"),
        "y": Axis(label="time", unit="ms"),
        "direction": "lower",
        "variants": (Variant(name="a", label="A"), Variant(name="b", label="B", ours=True)),
        "points": (point(),),
    }
    return Series(**{**values, **more})


ENVIRONMENT = Environment(
    hardware="h", processor="p", cores=2, threads=1, memory_bytes=1, platform="x", versions={}
)
BODIES = (
    Started(
        method="m",
        benchmark="b",
        version=1,
        params={"n": 1, "lengths": [1, 2]},
        seed=0,
        device="cpu",
        environment=ENVIRONMENT,
        at=1.0,
    ),
    Progress(fraction=0.5, elapsed=1.0, left=1.0),
    Log(offset=0, text="hello\n"),
    series(
        baseline="a",
        points=(
            point(),
            point(variant="b", ratio=Ratio(value=1.5, low=1.2, high=1.7, verdict="faster"), x=2.0),
        ),
        limits=(Limit(label="l", points=((1.0, 2.0),), of="ratio"),),
    ),
    CheckResult(name="c", measured=None, bound=1.0, relation="<=", passed=False),
    Artefact(name="a.txt", media_type="text/plain", encoding="text", content="x"),
    Result(duration=1.0, checks=1, series=("s",)),
    Failed(kind="error", message="m"),
    Cancelled(),
)
KINDS = (
    "started", "progress", "log", "series", "check", "artefact", "result", "failed", "cancelled",
)  # fmt: skip


def job(**more: Any) -> Job:
    values: dict[str, Any] = {"run": "r1", "attempt": 1, "token": "t1", "method": "m"}
    values |= {"benchmark": "b", "version": 1, "params": {"n": 1}, "seed": 0}
    return Job(**{**values, "limits": Limits(seconds=60), **more})


def event(**more: Any) -> Event:
    values: dict[str, Any] = {"seq": 0, "kind": "log", "body": BODIES[2]}
    return Event(**{**values, "run": "r1", "token": "t1", "worker": "w1", **more})


@pytest.mark.parametrize(("kind", "body"), [*zip(KINDS, BODIES, strict=True)])
def test_every_event_survives_the_way_as_a_line_and_in_an_envelope(kind: Any, body: Any) -> None:
    line = Line(seq=3, kind=kind, body=body)
    assert Line.parse(line.dump()) == line
    assert "\n" not in line.dump()
    assert parse_body(kind, json.loads(line.dump())["body"]) == body
    sent = json.loads(json.dumps(seal(event(kind=kind, body=body), KEY)))
    assert unseal(Event, sent, {"w1": KEY}.get).body == body


def test_a_body_must_fit_its_kind() -> None:
    with pytest.raises(ValidationError, match="does not fit"):
        Line(seq=0, kind="log", body=BODIES[1])
    with pytest.raises(ProtocolError):
        parse_body("log", {"fraction": 0.5, "elapsed": 1.0})
    with pytest.raises(ProtocolError, match="no event is of kind"):
        parse_body("shell", {})


def test_a_job_survives_the_way() -> None:
    sent = json.loads(json.dumps(seal(job(), KEY)))
    assert set(sent) == {
        "v", "run", "attempt", "token", "method", "benchmark", "version", "params", "seed",
        "limits", "sig",
    }  # fmt: skip
    assert unseal(Job, sent, lambda _: KEY) == job()


@pytest.mark.parametrize("field", ["run", "params", "seed", "attempt", "limits", "method"])
def test_a_changed_job_is_refused(field: str) -> None:
    sent = seal(job(), KEY)
    sent[field] = seal(
        job(run="r2", params={"n": 2}, seed=1, attempt=2, limits=Limits(seconds=1), method="x"), KEY
    )[field]
    with pytest.raises(ProtocolError, match="signature"):
        unseal(Job, sent, lambda _: KEY)


@pytest.mark.parametrize(
    "message",
    [
        None,
        [],
        "job",
        {},
        {"sig": 1},
        {"sig": "é\ud800"},
        {**seal(job(), KEY), "sig": ""},
        {**seal(job(), KEY), "more": 1},
        {**seal(job(), KEY), "seed": math.nan},
        seal(event(), KEY),
    ],
)
def test_what_is_not_a_signed_job_is_refused(message: object) -> None:
    with pytest.raises(ProtocolError):
        unseal(Job, message, lambda _: KEY)


def signed(data: dict[str, Any]) -> dict[str, Any]:
    """Signed rightly, whatever it says: a worker whose key was stolen."""
    import hashlib
    import hmac

    sig = hmac.new(KEY, b"assay.job.v1\n" + canonical(data), hashlib.sha256).hexdigest()
    return {**data, "sig": sig}


@pytest.mark.parametrize(
    "change",
    [
        {"v": 2},
        {"v": True},
        {"seed": "0"},
        {"seed": -1},
        {"seed": 2**64},
        {"attempt": 0},
        {"method": "../m"},
        {"method": "m\n"},
        {"run": "r" * 65},
        {"extra": 1},
        {"params": {"n n": 1}},
        {"limits": {"seconds": 0}},
        {"params": {"n": "x" * MAX_JOB_BYTES}},
    ],
)
def test_a_signed_job_is_validated_all_the_same(change: dict[str, Any]) -> None:
    data = job().model_dump(mode="json")
    assert unseal(Job, signed(data), lambda _: KEY) == job()
    with pytest.raises(ProtocolError):
        unseal(Job, signed(data | change), lambda _: KEY)


def test_keys_are_one_a_worker_and_long_enough() -> None:
    with pytest.raises(ProtocolError, match="signature"):
        unseal(Event, seal(event(), OTHER_KEY), {"w1": KEY}.get)
    with pytest.raises(ProtocolError, match="signature"):
        unseal(Event, seal(event(worker="stranger"), KEY), {"w1": KEY}.get)
    with pytest.raises(ProtocolError, match="at least 32 bytes"):
        seal(job(), b"short")


def test_what_is_too_large_is_not_sent() -> None:
    with pytest.raises(ProtocolError, match="of this size"):
        seal(job(params={"n": "x" * MAX_JOB_BYTES}), KEY)
    with pytest.raises(ValidationError):
        Log(offset=0, text="é" * MAX_LOG_BYTES)
    with pytest.raises(ValidationError):
        Artefact(name="a.txt", media_type="text/plain", encoding="text", content="x" * 2**21)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, True, "1", None])
def test_numbers_are_finite_numbers(value: Any) -> None:
    with pytest.raises(ValidationError):
        point(median=value)
    with pytest.raises(ValidationError):
        point(samples=(value,))


@pytest.mark.parametrize(
    "wrong",
    [
        {"baseline": "c"},
        {"points": (point(variant="c"),)},
        {"points": (point(x="one"),)},
        {"points": (point(x=0.0),)},  # the axis is logarithmic
        {"points": (point(), point())},
        {"variants": (Variant(name="a", label="A"), Variant(name="a", label="B"))},
        {"variants": ()},
        {"name": "S s"},
        {"title": "x" * 201},
        {"x": Axis(label="n", scale="category")},
    ],
)
def test_a_series_that_contradicts_itself_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        series(**wrong)


@pytest.mark.parametrize("wrong", [{"low": 3.0}, {"q1": 1.6}, {"samples": ()}])
def test_a_point_that_contradicts_itself_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        point(**wrong)


@pytest.mark.parametrize(
    "name", ["../x.svg", "x", "x.svg\n", ".svg", "a/b.svg", "X.svg", "a.b.c.svg", "x.svg\0"]
)
def test_an_artefact_is_named_as_a_plain_file(name: str) -> None:
    with pytest.raises(ValidationError):
        Artefact(name=name, media_type="image/svg+xml", encoding="text", content="")


def test_an_artefact_holds_bytes() -> None:
    png = Artefact(name="a.png", media_type="image/png", encoding="base64", content="AAE=")
    assert png.data() == b"\x00\x01"
    with pytest.raises(ValidationError, match="base64"):
        Artefact(name="a.png", media_type="image/png", encoding="base64", content="A*")


def test_text_is_cleaned_of_what_hides_or_reorders_it() -> None:
    assert clean("a\x1b[31mred\x1b[0m\x00\x07 b\r\nc\rd\te") == "ared b\nc\nd\te"
    assert clean("\x1b]0;title\x07x\x1b]8;;http://e\x1b\\link") == "xlink"
    assert clean("abc\u202edcba\u2066\u200b\ufeff\ud800") == "abcdcba"
    assert one_line(" a\n\t b ") == "a b"
    assert Log(offset=0, text="\x1b[2Jx").text == "x"
    assert Variant(name="a", label="a\nb\x07").label == "a b"


@given(st.text())
def test_cleaning_leaves_only_what_can_be_shown_and_sent(text: str) -> None:
    shown = clean(text)
    assert clean(shown) == shown
    assert all(c in "\n\t" or c.isprintable() or ord(c) >= 0xA0 for c in shown)
    shown.encode()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(json_values)
def test_whatever_arrives_is_answered_by_a_protocol_error(value: object) -> None:
    for opened in (
        lambda: unseal(Job, value, lambda _: KEY),
        lambda: unseal(Event, value, lambda _: KEY),
        lambda: Line.parse(json.dumps(value)),
        lambda: [parse_body(kind, value) for kind in KINDS[:-1]],
    ):
        with pytest.raises(ProtocolError):
            opened()


def test_an_axis_says_its_unit_once() -> None:
    tokens = Axis(label="Sequence length", unit="tokens")
    assert (tokens.title, tokens.at(4096.0)) == ("Sequence length (tokens)", "4096 tokens")
    assert tokens.at(1.0) == "1 token"
    rows = Axis(label="rows", unit="rows")
    assert (rows.title, rows.at(8.0)) == ("rows", "8 rows")
    kept = Axis(label="share kept")
    assert (kept.title, kept.at(0.2)) == ("share kept", "share kept = 0.2")
    assert Axis(label="scenes", scale="category").at("held out") == "held out"


@pytest.mark.parametrize("number", [1e308, -1e308, 5e-324, float("nan"), float("inf"), 1e61])
@pytest.mark.parametrize("name", ["median", "samples", "high"])
def test_a_number_that_nobody_measured_is_refused(name: str, number: float) -> None:
    point = dict.fromkeys(("median", "q1", "q3", "low", "high"), 1.0)
    point |= {"variant": "a", "x": 1.0, "samples": [1.0]}
    assert Point.model_validate_json(json.dumps(point))
    point[name] = [number] if name == "samples" else number
    with pytest.raises(ValidationError):
        Point.model_validate_json(json.dumps(point))
