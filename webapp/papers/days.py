"""arXiv's calendar. A batch belongs to the Eastern date its feed is built for.

Submissions close at 14:00 Eastern from Monday to Friday and are announced at 20:00 from Sunday
to Thursday (https://info.arxiv.org/help/availability.html); the feeds of that announcement are
built at the following midnight. So feeds are dated Monday to Friday, and a feed has what was
submitted between the last two closing times before its date: Tuesday's feed covers Friday 14:00 to
Monday 14:00. arXiv does not publish its holidays as data, so they are ignored: a paper may be at
most a few days early in a day taken from the API.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

EASTERN = ZoneInfo("America/New_York")
CLOSING = time(14, 0, tzinfo=EASTERN)
DAY = timedelta(days=1)


def now() -> datetime:
    """The current time, in UTC."""
    return datetime.now(UTC)


def eastern_date(moment: datetime) -> date:
    """The date of `moment` (aware) in arXiv's time zone."""
    return moment.astimezone(EASTERN).date()


def has_batch(day: date) -> bool:
    """True if arXiv builds feeds with papers on `day`: Monday to Friday, holidays aside."""
    return day.weekday() < 5


def last_batch_day(day: date) -> date:
    """The latest day not after `day` on which arXiv builds feeds with papers."""
    while not has_batch(day):
        day -= DAY
    return day


def next_batch_day(day: date) -> date:
    """The first day after `day` on which arXiv builds feeds with papers."""
    day += DAY
    while not has_batch(day):
        day += DAY
    return day


def batch_days(first: date, last: date) -> list[date]:
    """Every day of a batch from `first` to `last`, both included."""
    count = (last - first).days + 1
    return [day for day in (first + i * DAY for i in range(count)) if has_batch(day)]


def runs(days: Sequence[date], longest: int) -> list[list[date]]:
    """`days` in runs of consecutive batch days, of at most `longest` days each."""
    runs: list[list[date]] = []
    for day in days:
        if not runs or len(runs[-1]) == longest or next_batch_day(runs[-1][-1]) != day:
            runs.append([])
        runs[-1].append(day)
    return runs


def submission_window(day: date) -> tuple[datetime, datetime]:
    """The time range (UTC, end exclusive) in which the papers of `day`'s batch were submitted."""
    last = last_batch_day(day - DAY)
    first = last_batch_day(last - DAY)
    start, end = (datetime.combine(moment, CLOSING).astimezone(UTC) for moment in (first, last))
    return start, end


def announcement_day(submitted: datetime) -> date:
    """The day of the batch with the papers submitted at `submitted` (aware)."""
    local = submitted.astimezone(EASTERN)
    closing_day = local.date()
    if not has_batch(closing_day) or local.time() >= time(14, 0):
        closing_day = next_batch_day(closing_day)
    return next_batch_day(closing_day)
