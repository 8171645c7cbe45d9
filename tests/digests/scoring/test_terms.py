import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.clock import ends_within
from webapp.digests.scoring.terms import PatternError, normalise, term
from webapp.digests.scoring.texts import FoldedText

FOUND = [
    ("RL", "RL-based", ["RL"]),
    ("RL", "(RL)", ["RL"]),
    ("RL", "RL RL/RL, rl", ["RL", "RL", "RL", "rl"]),
    ("RL", "world early RLHF", []),
    ("LLM", "LLMs and an llm's", ["LLMs", "llm"]),
    ("efficiency", "efficiencies", ["efficiencies"]),
    ("bias", "Biases", ["Biases"]),
    ("key", "keys but no keies", ["keys"]),
    ("FP8", "FP8/FP4, FP80, BFP8", ["FP8"]),
    (
        "sparse attention",
        "sparse-attention; sparse\n  attentions",
        ["sparse-attention", "sparse\n  attentions"],
    ),
    ("sparse attention", "Sparse. Attention", []),
    ("sparse attention", r"\emph{sparse} attention", ["sparse} attention"]),
    (
        "multi-head",
        "multi-head multi head multihead multi\u2011heads",
        ["multi-head", "multi head", "multihead", "multi\u2011heads"],
    ),
    ("multi head", "multihead", []),
    ("C++", "C++17, c++ but C", ["C++", "c++"]),
    ("C", "C++ and C# and C.", ["C"]),
    ("R&D", "for R&D.", ["R&D"]),
    (".NET", "ASP.NET or net", [".NET"]),
    ("Moore's law", "Moore’s law", ["Moore’s law"]),
    ("quant*", "Quantization, quants, equant", ["Quantization", "quants"]),
    ("quant* aware", "quantization-aware", ["quantization-aware"]),
    ("大语言模型", "我们研究大语言模型的推理", ["大语言模型"]),
    ("LLM", "使用LLM进行推理", ["LLM"]),
    ("straße", "STRASSE, die Straße", ["STRASSE", "Straße"]),
    ("Poincaré", "POINCARÉ maps", ["POINCARÉ"]),
    ("/flash-?attn/", "FlashAttn, flash-attn", ["FlashAttn", "flash-attn"]),
    (r"/(?-i:RL)\b/", "RL rl", ["RL"]),
    ("/a.b/", "a\nb", ["a\nb"]),
    ("/(x)|y/", "xy", ["x", "y"]),
]


@pytest.mark.parametrize(("keyword", "text", "places"), FOUND)
def test_a_keyword_stands_where_a_reader_sees_it(
    keyword: str, text: str, places: list[str]
) -> None:
    sought = term(keyword)
    assert [text[start:end] for start, end in sought.spans(text)] == places
    assert (sought in FoldedText(text)) == bool(places)


def test_composed_and_decomposed_accents_are_one() -> None:
    assert term("Poincare\u0301") in FoldedText("Poincar\u00e9")
    assert term("Poincaré") in FoldedText("Poincare\u0301")


def test_a_substring_stands_anywhere() -> None:
    sought = term("RL", substring=True)
    assert sought.spans("world, RL") == [(2, 4), (7, 9)]
    assert term("İ", substring=True).spans("xİy") == [(1, 2)]


@pytest.mark.parametrize(
    ("keyword", "reason"),
    [
        ("", "is empty"),
        ("  ", "is empty"),
        ("a\nb", "line break"),
        ("x" * 101, "longer than 100"),
        ("*", "letter"),
        ("++", "no letter and no digit"),
        ("a*", "two characters"),
        ("pre *", "does not follow a word"),
        ("/abc", "does not end in /"),
        ("/a(/", "missing )"),
        ("/a)(b/", "unexpected )"),
        ("/(?=a)b/", "invalid perl operator"),
        (r"/(a)\1/", "invalid escape"),
        ("/x*/", "matches empty text"),
        (r"/\b/", "matches empty text"),
        ("/" + "a" * 201 + "/", "longer than 200"),
        (r"/(\pL{60}){16}/", "pattern too large"),
    ],
)
def test_what_cannot_be_a_keyword_says_why(keyword: str, reason: str) -> None:
    with pytest.raises(
        PatternError, match=reason.replace("(", r"\(").replace(")", r"\)").replace("*", r"\*")
    ):
        term(keyword)


@pytest.mark.parametrize(
    "regex", ["/(a+)+$/", "/(a|a)*b/", "/(.*)(.*)(.*)(.*)x/", "/(a|b)*a(a|b){40}c/"]
)
def test_a_hostile_expression_takes_linear_time(regex: str) -> None:
    assert ends_within(5, lambda: term(regex) in FoldedText("ab" * 50_000 + "a!"))


@given(st.text(max_size=60), st.text(max_size=300))
def test_any_text_is_a_keyword_or_an_error_and_spans_lie_in_the_text(
    keyword: str, text: str
) -> None:
    text = normalise(text)
    try:
        sought = term(keyword)
    except PatternError:
        return
    end = 0
    for start, stop in sought.spans(text):
        assert end <= start < stop <= len(text)
        end = stop


@given(
    st.text("abcXYZäé19", min_size=1, max_size=8),
    st.text(" -,.()/", min_size=1),
    st.text(" -,.()/", min_size=1),
)
def test_a_word_is_found_between_any_signs(word: str, left: str, right: str) -> None:
    text = left + word + right
    assert (len(left), len(left) + len(word)) in term(word).spans(text)
    assert term(word) not in FoldedText(f"q{word}q")
