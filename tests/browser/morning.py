"""Events at a site between two visits of a reader, one per call.

    python -m tests.browser.morning first|next N|work

`first` makes a past day and prints a link for the administrator, `next` a later day, N days ago.
`work` does what workers do: learn, build, mail.
"""

from __future__ import annotations

import sys
from datetime import timedelta

import django

ROBOT = ("robot manipulation", "A policy for robot grasping and manipulation.")
WORDS = ("translation quality", "We present a human evaluation of machine translation quality.")


def main(step: str, back: str = "8") -> None:
    django.setup()
    from tests.digests.days import announce, paper
    from webapp.core.database import bring_up_to_date
    from webapp.digests.build import build
    from webapp.library.feedback import learn_all
    from webapp.mail.deliver import deliver_due
    from webapp.papers.days import eastern_date, now
    from webapp.readers.links import administrator, make_link

    bring_up_to_date()
    day = eastern_date(now()) - timedelta(days=int(back))
    if step == "work":
        learn_all()
        deliver_due()
        return
    first = 100 * int(back)
    for number in range(first, first + (20 if step == "first" else 2)):
        title, abstract = ROBOT if number % 2 else WORDS
        announce(day, paper(number, f"{title} {number}", abstract=abstract, announced_on=day))
    build([day])
    if step == "first":
        sys.stdout.write(make_link(administrator()) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
