"""Colours and type of the charts: warm paper and ink, gold for what is ours."""

from __future__ import annotations

from pathlib import Path
from string import Template

RIVALS = 6

_LIGHT = {
    "paper": "#fbf8f1", "ink": "#26221b", "soft": "#6b6455", "rule": "#e4dccb", "axis": "#a89f8c",
    "ours": "#96690a", "ours-2": "#a4551c", "base": "#26221b", "c0": "#3f6285", "c1": "#8a4b3a",
    "c2": "#55713f", "c3": "#76507e", "c4": "#3d7670", "c5": "#7d6f63",
}  # fmt: skip
_DARK = {
    "paper": "#1b1914", "ink": "#ece5d6", "soft": "#aba28f", "rule": "#35312a", "axis": "#6d6656",
    "ours": "#e3b34c", "ours-2": "#e0915a", "base": "#ece5d6", "c0": "#8fb4da", "c1": "#dd977f",
    "c2": "#a4c288", "c3": "#c7a0cf", "c4": "#85c5bd", "c5": "#b9aa9c",
}  # fmt: skip


def _tokens(colours: dict[str, str]) -> str:
    return "".join(f"--chart-{name}:{colour};" for name, colour in colours.items())


_RULES = (Path(__file__).parent / "style.css").read_text(encoding="utf-8")
STYLE = Template(_RULES.replace("\n", "")).substitute(light=_tokens(_LIGHT), dark=_tokens(_DARK))
