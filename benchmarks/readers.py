"""The cost of many readers: with nothing changed, on a new day, and after one star.

    python -m benchmarks.readers --readers 5000 --profiles 15000 [--stars 2000]
                                 [--database postgresql] [--keep DIR]

Builds a site, going on where it was stopped if `--keep` names the same folder: papers of shuffled
sentences of the sample day, readers with papers saved, profiles of which two thirds learn, digests
of two days. Readers keep the papers of one of GROUPS circles, whose models are trained once; that
of each other reader of the circle is the same. Every paper has the vector that an encoder would
have made of it (random here), so nothing waits. Then the site is polled with nothing new and after
one reader saved a paper, a new day of 1,500 papers comes, readers save papers, the day is mailed,
and the first day is packed as those of weeks past are. Work runs in a process of its own, whose CPU
time (with that of its PostgreSQL connection) and peak memory are read. Waits for a worker are timed
with a real Redis and a real worker: a token each second while the day is built, and stars until the
order of their reader's latest day is another. A missed target makes the exit status 1.
"""

import multiprocessing
import os
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.figures import Figure, arguments, report
from benchmarks.large_site import CATEGORIES, empty_site, texts
from benchmarks.scale import Cost, measured, postgresql

DAYS = (date(2026, 6, 10), date(2026, 6, 11), date(2026, 6, 12))  # the last one is new
A_DAY, PAST = 1_500, 2_500  # papers
GROUPS = 20  # circles of readers who keep the same papers
STARS = 9
MAILED = 500  # readers to whom the new day is mailed
SITE = {  # a model that is never asked, and no tables, which arXiv would be asked for
    "ASSAY_BASE_URL": "https://site.example",
    "ASSAY_SUMMARY_MODEL": "none",
    "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
    "ASSAY_TABLE_PAPERS": "0",
}
AT_REST = {  # tasks that readers could make dear, and how often they run, in seconds
    **dict.fromkeys(("build", "link", "vectors", "postings", "learn_all", "read_tables"), 60),
    "summaries": 30,
    "mail": 300,
    "poll": 300,
}


@dataclass
class Spent:
    """The cost of a piece of work in a process of its own."""

    cost: Cost
    wall: float  # seconds
    memory: float  # MB, at its peak


def main() -> int:
    """Build, measure, print; the exit status."""
    parser = arguments(__doc__, readers=5_000, profiles=15_000, stars=2_000)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--keep", type=Path, help="a folder for the site, used again")
    options = parser.parse_args()
    with ExitStack() as stack:
        if options.database == "postgresql":
            given = os.environ.get("DATABASE_URL", "")
            os.environ["DATABASE_URL"] = given or stack.enter_context(postgresql(options.keep))
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        os.environ["CELERY_BROKER_URL"] = stack.enter_context(_redis(Path(folder)))
        os.environ |= SITE
        stack.enter_context(empty_site(options.keep))
        build(options.readers, options.profiles, options.stars)
        return report(figures())


@contextmanager
def _redis(folder: Path) -> Iterator[str]:
    from tests import machine
    from tests.servers import stores

    program = machine.REDIS.find() or sys.exit(machine.REDIS.why_not)
    with stores.redis(program, folder) as url:
        yield url


def build(readers: int, profiles: int, stars: int) -> None:
    """Add what is missing of papers, readers, profiles, what they keep, models and digests."""
    from django.contrib.auth.models import User
    from django.db import connection

    from webapp.digests.build import build as build_digests
    from webapp.digests.models import Digest, DigestEntry, FurtherMatches
    from webapp.papers.models import Paper

    if not Paper.objects.exists():
        _add_papers()
    joined = range(User.objects.count(), readers)
    User.objects.bulk_create(
        [User(username=f"reader-{n}", email=f"reader-{n}@home.example") for n in joined]
    )
    _add_profiles(readers, profiles)
    _add_stars(readers, stars)
    _train(readers)
    for day in DAYS[:2]:
        _announce(day)
        apart(partial(build_digests, [day]))
    new = Digest.objects.filter(date=DAYS[2])
    for model in (DigestEntry, FurtherMatches):  # of an earlier call
        model.objects.filter(digest__in=new).delete()
    new.delete()
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def _add_papers() -> None:
    from webapp.papers.models import Paper
    from webapp.ui.markup import render

    chance = random.Random(17)
    known = texts(None)
    split = (re.split(r"(?<=[.?!])\s+", text) for _, text in known)
    sentences = [sentence for text in split for sentence in text if sentence]
    words = [word for title, _ in known for word in title.split()]
    made = []
    for number in range(PAST + A_DAY * len(DAYS)):
        place = max(number - PAST, -1) // A_DAY  # -1: before the days that are shown
        title = " ".join(chance.sample(words, 9))
        abstract = " ".join(chance.sample(sentences, 7))
        made.append(
            Paper(
                arxiv_id=f"2606.{number:05d}",
                title=title,
                abstract=abstract,
                title_html=render(title),
                abstract_html=render(abstract, links=True),
                authors=[{"name": f"{chance.choice(words)} {chance.choice(words)}"}],
                primary_category=(category := chance.choice(CATEGORIES)),
                categories=[category],
                announced_on=DAYS[place] if place >= 0 else DAYS[0] - timedelta(days=9),
                enriched_at=datetime(2026, 6, 13, tzinfo=UTC),
            )
        )
    Paper.objects.bulk_create(made, batch_size=500)


def _announce(day: date) -> None:
    """Have the day's papers announced."""
    from webapp.papers.models import Announcement, Listing, Paper

    at = datetime(day.year, day.month, day.day, tzinfo=UTC)
    fields = {"state": "complete", "source": "rss", "polled_at": at, "changed_at": at}
    for category in CATEGORIES:
        listing, new = Listing.objects.get_or_create(category=category, date=day, defaults=fields)
        papers = Paper.objects.filter(announced_on=day, primary_category=category)
        if new:
            Announcement.objects.bulk_create(
                Announcement(listing=listing, paper=paper, type="new", version=1)
                for paper in papers
            )


def _add_profiles(readers: int, profiles: int) -> None:
    from django.contrib.auth.models import User

    from webapp.digests.models import Profile
    from webapp.mail.models import Delivery

    chance = random.Random(18)
    words = sorted({word for title, _ in texts(None) for word in re.findall(r"[a-z]{5,}", title)})
    owners = list(User.objects.order_by("pk")[:readers])
    rankings = ("rules", "both", "learned")
    made = [
        Profile(
            slug=f"profile-{number}",
            name=f"Profile {number}",
            owner=owners[number % readers],
            ranking=rankings[number // readers % 3],
            categories=list(CATEGORIES),
            keywords=[
                {"keyword": word, "weight": 1.0, "title_bonus": 0.5}
                for word in chance.sample(words, 10)
            ],
            announce_types=["new", "cross"],
        )
        for number in range(Profile.objects.filter(is_site=False).count(), profiles)
    ]
    Profile.objects.bulk_create(made, batch_size=500)
    mailed = owners[:MAILED]
    Delivery.objects.filter(reader__in=mailed).delete()
    Delivery.objects.bulk_create(
        Delivery(
            reader=profile.owner,
            profile=profile,
            frequency="daily",
            sent_until=DAYS[1],
            looked_on=DAYS[1],
        )
        for profile in Profile.objects.select_related("owner").filter(
            owner__in=mailed, ranking="rules"
        )
    )


def _kept_by(group: int, stars: int) -> list[int]:
    """The keys of the papers that a circle of readers keeps."""
    from webapp.papers.models import Paper

    before = Paper.objects.filter(announced_on__lt=DAYS[0]).order_by("pk")
    return random.Random(group).sample(list(before.values_list("pk", flat=True)), stars)


def _add_stars(readers: int, stars: int) -> None:
    from django.contrib.auth.models import User

    from webapp.library.models import Star

    kept = [_kept_by(group, stars) for group in range(GROUPS)]
    have = set(Star.objects.values_list("reader", flat=True).distinct())
    for number, reader in enumerate(User.objects.order_by("pk")[:readers]):
        if reader.pk not in have:
            Star.objects.bulk_create(
                [Star(reader=reader, paper_id=key) for key in kept[number % GROUPS]],
                batch_size=1_000,
            )


def _train(readers: int) -> None:
    """Each reader's model: trained for the first of a circle, and the same for the others."""
    from django.contrib.auth.models import User

    from webapp.core import revisions
    from webapp.digests.models import LearnedModel
    from webapp.library import feedback

    keys = list(User.objects.order_by("pk").values_list("pk", flat=True)[:readers])
    trained = {}
    for group, key in enumerate(keys[:GROUPS]):
        feedback.model_for(key, feedback.ALL)
        trained[group] = LearnedModel.objects.get(reader=key, source=feedback.ALL)
    have = set(LearnedModel.objects.values_list("reader", flat=True))
    missing = []
    for number, key in enumerate(keys):
        if key not in have:
            model = LearnedModel.objects.get(pk=trained[number % GROUPS].pk)
            model.pk, model.reader_id = None, key
            missing.append(model)
        if len(missing) == 100 or (missing and key == keys[-1]):
            LearnedModel.objects.bulk_create(missing)
            missing = []
    for waits in revisions.pending(feedback.LEARN).values():
        revisions.settle(waits)


class Apart:
    """Work in a process of its own."""

    def __init__(self, act: Callable[[], object]) -> None:
        from django.db import connections

        connections.close_all()
        context = multiprocessing.get_context("fork")
        self.ends, end = context.Pipe()
        self.process = context.Process(target=_measure, args=(act, end))
        self.began = time.perf_counter()
        self.process.start()

    def is_over(self, seconds: float = 0.0) -> bool:
        """Return whether the work has ended, or ends within this time."""
        return self.ends.poll(seconds)

    def spent(self) -> Spent:
        """Wait for the end and return the cost. Raises EOFError if the work failed."""
        spent: Spent = self.ends.recv()
        self.process.join()
        return spent


def _measure(act: Callable[[], object], end: Connection) -> None:
    began = time.perf_counter()
    with measured() as cost:
        act()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_000
    end.send(Spent(cost, time.perf_counter() - began, memory))


def apart(act: Callable[[], object]) -> Spent:
    """Do work in a process of its own; what it took."""
    return Apart(act).spent()


def figures() -> list[Figure]:
    """Measure the built site; every figure with its target."""
    from webapp.digests.models import Digest, Profile
    from webapp.digests.retention import bytes_a_year

    apart(_add_vectors)
    apart(_settle)
    resting = {name: apart(_task(name)).cost for name in AT_REST}
    share = sum(resting[name].ms / 10 / seconds for name, seconds in AT_REST.items())
    asked = sum(cost.queries for cost in resting.values())
    unchanged = apart(lambda: _build(DAYS[:2]))
    apart(_save_one_paper)
    changed = apart(lambda: _build(DAYS[:2]))
    _announce(DAYS[2])
    with _worker("quick"):
        building = Apart(lambda: _build(DAYS))
        waits = _waits_of_tokens(building)
        new = building.spent()
        first, *star = [_star(number) for number in range(STARS)]
    mailed, mails = _mail()
    _pack()
    assert Digest.objects.filter(date=DAYS[2]).count() >= Profile.objects.count() - 1
    total, each = bytes_a_year() or (0, 0)
    return [
        Figure("memory while a new day is built", new.memory, "MB", 300),
        Figure("CPU at rest, nothing changed", share, "% of a core", 1, beside=f"{asked} queries"),
        Figure("an unchanged poll", unchanged.cost.ms / 1e3, "s of CPU", 1),
        Figure("a poll after one reader's change", changed.cost.ms / 1e3, "s of CPU", 1,
               beside=f"{changed.cost.queries} queries, {changed.memory:.0f} MB"),
        Figure(
            "a new day of 1,500 papers for all", new.cost.ms / 1e3, "s of CPU", 120,
            beside=f"{new.wall:.0f} s, {new.cost.queries} queries",
        ),
        Figure("one star to the order of the latest day, median", statistics.median(star), "s", 0.5,
               beside=f"longest {max(star):.2g}; the first of a new worker {first:.2g}"),
        Figure("a quick task waits meanwhile, longest", max(waits), "s", 1,
               beside=f"of {len(waits)}"),
        Figure("a mail of the new day", mails.cost.ms / max(mailed, 1), "ms of CPU",
               beside=f"{mailed} mails"),
        Figure("digests of a year on disk", total / 1e9, "GB", 10,
               beside=f"{each / 1e6:.2g} MB a profile"),
    ]  # fmt: skip


def _settle() -> None:
    """Do what was never done, as if a model had answered."""
    from webapp.summaries.models import Summary

    for _ in range(6):
        for name in AT_REST:
            _task(name)()
        Summary.objects.update(state=Summary.State.DONE)
    _build(DAYS[:2])  # the site's keywords are counted in the papers that it has now


def _add_vectors() -> None:
    """Give every paper a random vector under the name of the encoder in use, if there is one."""
    from webapp.learning import encoder
    from webapp.learning.models import PaperVector
    from webapp.papers.models import Paper

    if not (name := encoder.name()):
        print("There is no encoder: rest is measured without its index.")
        return
    width, chance = len(encoder.encode(["A paper."])[0]), random.Random(19)
    PaperVector.objects.bulk_create(
        [
            PaperVector(paper_id=key, encoder=name, version=1, values=chance.randbytes(width))
            for key in Paper.objects.filter(vector=None).values_list("pk", flat=True)
        ],
        batch_size=500,
    )


def _save_one_paper() -> None:
    """Let the first reader save a paper, and learn from it."""
    from django.contrib.auth.models import User

    from webapp.library.models import Star
    from webapp.papers.models import Paper

    reader = User.objects.order_by("pk")[0]
    Star.objects.create(reader=reader, paper=Paper.objects.exclude(stars__reader=reader)[0])
    _task("learn_all")()


def _task(name: str) -> Callable[[], object]:
    import workers.site.tasks  # noqa: F401 (registers them)
    from workers.site.app import app

    if name == "poll":  # without asking arXiv
        from webapp.digests.daily import categories_to_fetch

        return categories_to_fetch
    task: Callable[[], object] = app.tasks[f"site.{name}"]
    return task


def _build(days: Sequence[date]) -> None:
    from webapp.digests.daily import ask_for, build_asked

    ask_for(days)
    build_asked()


def _star(number: int) -> float:
    """Seconds from a star until the digests of its reader's latest day are ranked by it."""
    from django.contrib.auth.models import User

    from webapp.digests.models import Digest
    from webapp.library.models import Star
    from webapp.papers.models import Paper

    reader = User.objects.order_by("-pk")[number]
    paper = Paper.objects.exclude(stars__reader=reader).latest("pk")
    latest = Digest.objects.filter(profile__owner=reader, date=DAYS[2])
    ranked = latest.exclude(profile__ranking="rules").order_by("pk").values_list("inputs")
    before, began = list(ranked), time.perf_counter()
    Star.objects.create(reader=reader, paper=paper)  # which sends the worker a message
    while any(old == new for old, new in zip(before, ranked.all(), strict=True)):
        time.sleep(0.005)
        assert time.perf_counter() < began + 60, "the order did not change within a minute"
    return time.perf_counter() - began


def _pack() -> None:
    """Pack the digests of the first day, and give back the room that others took."""
    from django.db import connection

    from webapp.digests import retention

    days, retention.WHOLE_DAYS = retention.WHOLE_DAYS, (DAYS[2] - DAYS[0]).days - 1
    apart(retention.pack_old)
    retention.WHOLE_DAYS = days
    with connection.cursor() as cursor:
        cursor.execute("VACUUM FULL" if connection.vendor == "postgresql" else "VACUUM")


@contextmanager
def _worker(queue: str) -> Iterator[None]:
    """A site's worker on one queue."""
    command = [sys.executable, "-m", "celery", "-A", "workers.site.app", "worker", "-Q", queue]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        _wait_of_token()  # until it has started
        try:
            yield
        finally:
            process.terminate()


def _waits_of_tokens(work: Apart) -> list[float]:
    """Time tasks of the quick queue, one each second, while the work goes on."""
    waits = []
    while not work.is_over(1.0):
        waits.append(_wait_of_token())
    return waits or [_wait_of_token()]


def _wait_of_token() -> float:
    from webapp.core import tasks
    from webapp.operate.models import Heartbeat

    rows = Heartbeat.objects.filter(kind="queue", name="quick").values_list("at", flat=True)
    before, began = rows.first(), time.perf_counter()
    tasks.send("health.token", [], "quick", lost="the measurement")
    while rows.first() == before and time.perf_counter() < began + 60:
        time.sleep(0.005)
    return time.perf_counter() - began


def _mail() -> tuple[int, Spent]:
    """Mail the new day to a real server: how many mails, and what they took."""
    from tests.mail.conftest import receiving
    from webapp.mail import deliver

    with receiving() as (inbox, address):
        os.environ |= {"ASSAY_SMTP_URL": address, "ASSAY_MAIL_FROM": "assay@site.example"}
        spent = apart(deliver.deliver_due)
        return len(inbox.mails), spent


if __name__ == "__main__":
    raise SystemExit(main())
