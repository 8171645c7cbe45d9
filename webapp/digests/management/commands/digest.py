"""manage.py digest: a day, or the best since one, printed."""

from datetime import date
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from assay_common.terminal import progress_bar
from webapp.digests.backlog import score_since
from webapp.digests.lookup import NotFoundError, day, find_digest, find_profile
from webapp.digests.models import Digest, DigestEntry, Profile
from webapp.digests.profiles.validation import ProfileError
from webapp.digests.queries import digest_entries, entries_of_rows, load_texts
from webapp.digests.text_formats import FORMATS
from webapp.papers.models import Paper


class Command(BaseCommand):
    help = "Print the digest of a day, or the best papers since a day."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--date", metavar="D", type=day, help="for example 2026-03-02 (default: the latest)"
        )
        parser.add_argument(
            "--since",
            metavar="D",
            type=day,
            help="score all papers since 2006, 2006-05 or 2006-05-04",
        )
        parser.add_argument("--profile", metavar="P", help="slug or name (default: the site's)")
        parser.add_argument("--format", choices=FORMATS, default="text")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            profile = find_profile(options["profile"])
            if options["since"]:
                digest, entries = self._since(profile, options["since"])
            else:
                digest = find_digest(profile, options["date"])
                entries = digest_entries(digest)
        except (NotFoundError, ProfileError) as error:
            raise CommandError(str(error), returncode=2) from None
        self.stdout.write(FORMATS[options["format"]](digest, entries).rstrip("\n"))

    def _since(self, profile: Profile, since: date) -> tuple[Digest, list[DigestEntry]]:
        with progress_bar() as bar:
            task = bar.add_task("papers", total=None)
            found = score_since(
                profile, since, lambda done, of: bar.update(task, completed=done, total=of)
            )
        total = Paper.objects.filter(announced_on__gte=since).count()
        self.stderr.write(
            f"{total:,} papers since {since}: {found.reading_seconds:.1f} s of reading, "
            f"{found.scoring_seconds:.1f} s of scoring"
        )
        entries = entries_of_rows(found.digest, found.rows, 1)
        load_texts(entries)
        return found.digest, entries
