"""Colours and type of the charts: warm paper and ink, gold for what is ours."""

from __future__ import annotations

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


STYLE = "".join(
    [
        f".assay-chart{{{_tokens(_LIGHT)}display:block;width:100%;max-width:720px;height:auto;",
        "background:var(--chart-paper);font-family:Inter,system-ui,-apple-system,'Segoe UI',",
        "'Helvetica Neue',Arial,sans-serif}",
        "@media (prefers-color-scheme:dark){.assay-chart{" + _tokens(_DARK) + "}}",
        f"[data-theme=light] .assay-chart,.assay-chart[data-theme=light]{{{_tokens(_LIGHT)}}}",
        f"[data-theme=dark] .assay-chart,.assay-chart[data-theme=dark]{{{_tokens(_DARK)}}}",
        ".assay-chart text{fill:var(--chart-ink);font-size:13px}",
        ".assay-chart .sheet{fill:var(--chart-paper)}",
        ".assay-chart .title{font-family:'Source Serif 4','Source Serif Pro',Georgia,serif;",
        "font-size:16px;font-weight:600}",
        ".assay-chart .soft{fill:var(--chart-soft);font-size:12px}",
        ".assay-chart .tick{fill:var(--chart-soft);font-family:ui-monospace,'JetBrains Mono',",
        "'SF Mono',Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:12px;",
        "font-variant-numeric:tabular-nums}",
        ".assay-chart .rule{stroke:var(--chart-rule);stroke-width:1}",
        ".assay-chart .axis{stroke:var(--chart-axis);stroke-width:1}",
        ".assay-chart .leader{stroke:var(--chart-axis);stroke-width:.75;fill:none;opacity:.7}",
        ".assay-chart .limit{stroke:var(--chart-soft);stroke-width:1.25;fill:none;",
        "stroke-dasharray:5 4}",
        ".assay-chart .limit-label{fill:var(--chart-soft);font-style:italic;font-size:12px}",
        ".assay-chart .one{stroke:var(--chart-base);stroke-width:1.25}",
        ".assay-chart .line{fill:none;stroke:currentColor;stroke-width:1.6;",
        "stroke-linejoin:round;stroke-linecap:round}",
        ".assay-chart .whisker{fill:none;stroke:currentColor;stroke-width:1.2;opacity:.8}",
        ".assay-chart .mark{fill:currentColor;stroke:var(--chart-paper);stroke-width:1}",
        ".assay-chart .doubt{fill:var(--chart-paper);stroke:currentColor;stroke-width:1.6}",
        ".assay-chart .stem{stroke:currentColor;stroke-width:1.4;opacity:.35}",
        ".assay-chart .name{fill:currentColor}",
        ".assay-chart .ours .line{stroke-width:2.6}.assay-chart .ours .name{font-weight:650}",
        *(
            f".assay-chart .v-{name}{{color:var(--chart-{name})}}"
            for name in ("ours", "ours-2", "base", *(f"c{k}" for k in range(RIVALS)))
        ),
        "@media print{.assay-chart{" + _tokens(_LIGHT) + "}}",
    ]
)
