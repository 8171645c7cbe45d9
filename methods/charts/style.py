"""Colours and type of the charts: warm paper and ink, gold for what is ours."""

import tomllib
from pathlib import Path
from string import Template

RIVALS = 6
_FOLDER = Path(__file__).parent
COLOURS: dict[str, dict[str, str]] = tomllib.loads((_FOLDER / "colours.toml").read_text("utf-8"))
_TOKENS = {
    theme: "".join(f"--chart-{name}:{colour};" for name, colour in colours.items())
    for theme, colours in COLOURS.items()
}
_RULES = (_FOLDER / "style.css").read_text(encoding="utf-8")
STYLE = Template(_RULES.replace("\n", "")).substitute(_TOKENS)
