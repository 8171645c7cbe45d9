"""The numbers of abstracts in the database, read once for each version of paper and rules."""

from decimal import Decimal, InvalidOperation
from functools import cache, partial
from hashlib import sha256
from pathlib import Path

from django.db import transaction
from django.db.models import F, Q, QuerySet

from webapp.claims.extraction.claims import RuleClaim, claims_of
from webapp.claims.models import AbstractNumber, AbstractReading, Comparator
from webapp.claims.scopes import BUILT_IN, Quantity, plain, quantity_of
from webapp.core.revisions import once
from webapp.papers.models import Paper

A_CALL = 2000  # papers; about ten seconds
BATCH = 200
_LARGEST = Decimal(10) ** 17  # what the column of values holds
_RULES = ("comparators.toml", "scopes.py", "tables/names.toml", "extraction", "numbers")


def read_new() -> int:
    """Read the abstracts that were not read as they are now, the newest first; how many."""
    ways = comparators()
    rules = fingerprint(ways)
    return once("abstracts", ("papers",), partial(_read_new, ways, rules), rules)


def _read_new(ways: dict[str, str], rules: str) -> tuple[int, bool]:
    """How many were read, and whether none is left."""
    is_read = Q(abstract_reading__version=F("version"), abstract_reading__rules=rules)
    wanted = Paper.objects.exclude(is_read).order_by("-pk").values_list("pk", flat=True)
    keys = list(wanted[:A_CALL])
    for start in range(0, len(keys), BATCH):
        _read(Paper.objects.filter(pk__in=keys[start : start + BATCH]), ways, rules)
    return len(keys), len(keys) < A_CALL


def comparators() -> dict[str, str]:
    """The usual name of each way to write a comparator, those of the site's own among them."""
    ways = dict(BUILT_IN)
    for name, written in Comparator.objects.values_list("name", "written"):
        ways |= {plain(line): name for line in [name, *written.splitlines()] if line.strip()}
    return ways


def fingerprint(ways: dict[str, str]) -> str:
    """A digest of everything that decides what is read: rules, names, comparators."""
    return sha256((_source() + repr(sorted(ways.items()))).encode()).hexdigest()[:16]


@cache
def _source() -> str:
    here = Path(__file__).parent
    paths = (p for name in _RULES for p in ([here / name], sorted((here / name).glob("*.*"))))
    return "".join(p.read_text() for group in paths for p in group if p.is_file())


def _read(papers: QuerySet[Paper], ways: dict[str, str], rules: str) -> None:
    """Replace what was read of some papers."""
    rows = list(papers)
    numbers = [
        _row(paper, claim, quantity)
        for paper in rows
        for claim in claims_of(paper.abstract)
        if (quantity := quantity_of(claim, ways))
    ]
    with transaction.atomic():
        AbstractNumber.objects.filter(paper__in=rows).delete()
        AbstractNumber.objects.bulk_create(numbers, batch_size=500)
        AbstractReading.objects.bulk_create(
            [AbstractReading(paper=p, version=p.version, rules=rules) for p in rows],
            update_conflicts=True,
            unique_fields=["paper"],
            update_fields=["version", "rules", "read_at"],
        )


def _row(paper: Paper, claim: RuleClaim, quantity: Quantity) -> AbstractNumber:
    return AbstractNumber(
        paper=paper,
        **vars(quantity),
        name=claim.metric[:200],
        direction=claim.direction,
        subject=claim.subject[:300],
        baseline=claim.baseline[:300],
        setting=claim.setting[:300],
        text=claim.shown[:80],
        value=_value(claim.value),
        quote=claim.quote,
        start=claim.start,
        end=claim.end,
    )


def _value(written: str) -> Decimal | None:
    """The number itself; None for a range or a change."""
    try:
        value = round(Decimal(written), 12)
    except InvalidOperation:
        return None
    return value if abs(value) < _LARGEST else None
