"""arXiv's calendar. A batch belongs to the Eastern date its feed is built for.

Submissions close at 14:00 Eastern from Monday to Friday and are announced at 20:00 from Sunday
to Thursday (https://info.arxiv.org/help/availability.html); the feeds of that announcement are
built at the following midnight. So feeds are dated Monday to Friday, and the feed of a day holds
what was submitted between the two last closing times before it: Tuesday's feed holds Friday 14:00
to Monday 14:00. arXiv's holidays are not published as data: the days after one are read as if
there had been none, which puts a paper at most a few days early in a day taken from the API.
"""

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

EASTERN = ZoneInfo("America/New_York")
CLOSING = time(14, 0, tzinfo=EASTERN)
DAY = timedelta(days=1)


def now() -> datetime:
    """This moment, in UTC."""
    return datetime.now(UTC)


def eastern_date(moment: datetime) -> date:
    """The date of `moment` (aware) where arXiv lives."""
    return moment.astimezone(EASTERN).date()


def has_batch(day: date) -> bool:
    """Whether arXiv builds feeds with papers on `day`: Monday to Friday, holidays aside."""
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


def submission_window(day: date) -> tuple[datetime, datetime]:
    """From when to when (UTC, the end not included) the papers of `day`'s batch were submitted."""
    last = last_batch_day(day - DAY)
    first = last_batch_day(last - DAY)
    return (
        datetime.combine(first, CLOSING).astimezone(UTC),
        datetime.combine(last, CLOSING).astimezone(UTC),
    )


def batch_day_of(submitted: datetime) -> date:
    """The day whose batch holds what was submitted at `submitted` (aware)."""
    local = submitted.astimezone(EASTERN)
    closing_day = local.date()
    if not has_batch(closing_day) or local.time() >= time(14, 0):
        closing_day = next_batch_day(closing_day)
    return next_batch_day(closing_day)
