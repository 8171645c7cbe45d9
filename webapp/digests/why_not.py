"""The reason why a feed does not list a paper."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date as Date

from django.contrib.auth.models import AnonymousUser, User
from django.db.models import Q
from django.utils.translation import gettext as _

from webapp.digests.batch import REPLACEMENTS
from webapp.digests.models import DigestEntry, Profile
from webapp.digests.profiles.validation import ProfileError, load_rules
from webapp.digests.scoring.rules import Candidate, Rules, Standing
from webapp.digests.scoring.scorer import Scorer
from webapp.learning.preferences import CLOSE
from webapp.papers.models import Announcement, Paper
from webapp.papers.queries import Announced, announced_on

FEEDS = 20  # of a reader, the first


@dataclass(frozen=True)
class Explanation:
    """The reason why a feed does not list a paper of a day; empty if it does."""

    feed: Profile
    date: Date | None
    reason: str = ""
    is_listed: bool = False


def explain(paper: Paper, reader: User | AnonymousUser) -> list[Explanation]:
    """Explain for each feed of a reader, and the site's, why it lists a paper or does not."""
    which = Q(is_site=True) | Q(owner=reader.pk) if reader.pk else Q(is_site=True)
    feeds = Profile.objects.filter(which)
    ordered = feeds.order_by("is_site", "created_at")[: FEEDS + 1]
    days = Announcement.objects.filter(paper=paper).order_by("listing__date")
    dates = list(dict.fromkeys(days.values_list("listing__date", flat=True)))
    return [_explain(paper, feed, dates) for feed in ordered]


def _explain(paper: Paper, feed: Profile, dates: list[Date]) -> Explanation:
    entries = DigestEntry.objects.filter(digest__profile=feed, paper=paper)
    entry = entries.select_related("digest").order_by("also_mentioned", "digest__date").first()
    if entry and not entry.also_mentioned:
        return Explanation(feed, entry.digest.date, is_listed=True)
    if not dates:
        return Explanation(feed, None, _("This site has not seen it announced."))
    date = entry.digest.date if entry and entry.digest.date in dates else dates[0]
    [announced] = announced_on(date, paper=paper)
    try:
        rules = load_rules(feed)
    except ProfileError as error:
        return Explanation(feed, date, _("The feed is invalid: %s") % error)
    reason = next(_reasons(announced, feed, rules, date))
    return Explanation(feed, date, reason)


def _reasons(announced: Announced, feed: Profile, rules: Rules, date: Date) -> Iterator[str]:
    """Yield the obstacles that keep a paper out of a feed's list, in order."""
    paper, kind = announced.paper, announced.announce_type
    if rules.categories and not set(rules.categories) & set(announced.categories):
        both = {"theirs": ", ".join(announced.categories), "mine": ", ".join(rules.categories)}
        yield _("It was announced in %(theirs)s; the feed reads %(mine)s.") % both
    if rules.announce_types and kind not in rules.announce_types:
        yield _("It was announced as “%s”, which the feed leaves out.") % kind.label
    if rules.learned and paper.arxiv_id in rules.learned.saved_papers:
        yield _("You saved it, so it is in your library.")
    candidate = Candidate(
        paper.arxiv_id, paper.title, paper.abstract, announced.categories, kind.value,
        paper.submitted_at, tuple(paper.author_names),
    )  # fmt: skip
    if excluded := _excluded(candidate, rules):
        yield _("It contains “%s”, which the feed excludes.") % excluded
    yield from _by_score(candidate, rules)
    if kind not in REPLACEMENTS:
        earlier = DigestEntry.objects.filter(
            digest__profile=feed, paper=paper, digest__date__lt=date
        )
        if earlier.exists():
            yield _("The feed showed it on an earlier day.")
    if not feed.digests.filter(date=date).exists():
        yield _("The feed has no list of that day.")
    yield _("Other papers of the day rank higher, and the list is full.")


def _excluded(candidate: Candidate, rules: Rules) -> str:
    """Return the first excluded keyword that a paper has."""
    each = [Rules((), (text,), substring=rules.substring) for text in rules.exclude]
    excluding = Scorer(each).excluding(candidate)
    return rules.exclude[min(excluding)] if excluding else ""


def _by_score(candidate: Candidate, rules: Rules) -> Iterator[str]:
    """Yield that a paper has no keyword, too few points, or is not close to saved papers."""
    scorer, learned = Scorer([rules]), rules.learned
    paper = next(iter(scorer.kept([candidate])[0]), None)
    if paper and paper.standing is Standing.ABOUT:
        return
    if paper and learned and paper.closeness >= CLOSE:
        return
    matches = [match for match in scorer.matches(0, candidate) if "closeness" not in match]
    phrases = _(", ").join(f"“{match.get('text') or match['keyword']}”" for match in matches)
    if learned:
        far = _("It is further from what you saved than the papers that the feed lists.")
        if learned.keyword_closeness:
            far = _("It is less close to this feed’s papers than those that it lists.")
        yield f"{_('It matches %s.') % phrases} {far}" if phrases else far
    elif not matches:
        yield _("None of the feed’s keywords is in its title or abstract.")
    elif paper and paper.standing is Standing.MENTIONS:
        yield (
            _("It mentions %s once, outside the title and the sentence on what it does.") % phrases
        )
    else:
        score = {"words": phrases, "least": f"{rules.min_score:g}"}
        score["points"] = f"{sum(match['points'] for match in matches):.1f}"
        yield _("It matches %(words)s with %(points)s points; the feed needs %(least)s.") % score
