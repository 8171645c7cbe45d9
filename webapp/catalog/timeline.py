"""How many papers a month, as a small drawing."""

from collections.abc import Sequence
from datetime import date

WIDTH, HEIGHT, STEP = 480, 96, 40
BASE = 72  # where the bars stand


def papers_by_month(months: Sequence[tuple[date, int]]) -> str:
    """Bars with their counts, one a month, as SVG that a page's own stylesheet colours."""
    most = max((count for _, count in months), default=0)
    if not most:
        return ""
    parts = []
    for place, (month, count) in enumerate(months):
        x, height = place * STEP, round(52 * count / most)
        if count:
            parts.append(
                f'<rect class="bar" x="{x + 8}" y="{BASE - height}" width="24" height="{height}"/>'
                f'<text x="{x + 20}" y="{BASE - height - 5}" text-anchor="middle">{count}</text>'
            )
        name = f"{month:%b}" if place and month.month > 1 else f"{month:%b %y}"
        parts.append(
            f'<text class="soft" x="{x + 20}" y="{BASE + 16}" text-anchor="middle">{name}</text>'
        )
    said = ", ".join(f"{month:%B %Y}: {count}" for month, count in months if count)
    return (
        f'<svg class="months" role="img" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'aria-labelledby="months-title"><title id="months-title">Papers a month: {said}</title>'
        f'<line class="axis" x1="0" y1="{BASE}" x2="{WIDTH}" y2="{BASE}"/>{"".join(parts)}</svg>'
    )
