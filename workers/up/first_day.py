"""Published results and the first digest, brought in while the site is serving already.

With arXiv out of reach it says why and shows the sample day; the beat keeps trying.
"""

import os
import sys

import django
from django.core.management import CommandError, call_command

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
django.setup()

from webapp.catalog import chips, linking  # noqa: E402 (after django.setup())
from webapp.digests.daily import categories_to_fetch, update  # noqa: E402 (after django.setup())
from webapp.digests.models import Digest  # noqa: E402


def main() -> int:
    """Publish results, fetch, build, and say so; the exit status."""
    try:
        call_command("import_results")
    except CommandError as error:  # the files were named; the day does not wait for them
        print(str(error))
    report = update(categories_to_fetch(), on_progress=_print_progress)
    linking.link_new()
    chips.refresh()
    if report.failed:
        print(f"Nothing came from arXiv: {report.reason}.")
    else:
        for row in report.rows:
            counts = ", ".join(f"{many} {kind}" for kind, many in row.counts.items() if many)
            print(f"{row.category} {row.date}: {row.state}. {row.reason or counts}")
    digest = Digest.objects.filter(profile__is_site=True).order_by("-date").first()
    if digest is not None:
        what = "The sample digest" if digest.is_sample else "The digest"
        print(f"{what} of {digest.date} is there: {digest.entries.count()} papers.")
    if report.failed:
        print("Assay keeps asking arXiv.")
    return 0


def _print_progress(done: int, total: int, step: str) -> None:
    if done < total:
        print(f"Asking arXiv, {done + 1} of {total}: {step} …")


if __name__ == "__main__":
    sys.exit(main())
