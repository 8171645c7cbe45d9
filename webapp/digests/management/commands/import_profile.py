"""manage.py import_profile: the seed bot's configuration as a profile."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from webapp.digests.build import build
from webapp.digests.models import Profile
from webapp.digests.profiles.preview import DAYS
from webapp.digests.profiles.seed_config import read_config
from webapp.digests.profiles.validation import ProfileError, save_settings
from webapp.papers.queries import dates


class Command(BaseCommand):
    help = "Import the seed bot's config.json as a profile; importing it again updates the profile."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("config", help="the seed bot's configuration, for example config.json")
        parser.add_argument("--name", help="the profile's name (default: the file's name)")
        parser.add_argument(
            "--matching",
            choices=Profile.Matching.values,
            default=Profile.Matching.TOKEN.value,
            help="match whole words (default), or substrings with exactly the seed bot's scores",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        path = Path(options["config"])
        name, matching = options["name"] or path.stem, Profile.Matching(options["matching"])
        try:
            new = read_config(path.read_bytes(), name, matching)
        except OSError as error:
            raise CommandError(f"{path}: {error.strerror}", returncode=2) from None
        except ProfileError as error:
            message = f"{path} cannot be imported; nothing was changed: {error}"
            raise CommandError(message, returncode=2) from None
        with transaction.atomic():
            existing = Profile.objects.select_for_update().filter(name=new.name, owner=None).first()
            profile = existing or Profile()
            save_settings(profile, new)
        built = build(dates(DAYS), [profile])  # so that its page is not empty
        self.stdout.write(
            f"{'Updated' if existing else 'Imported'} the profile “{profile.name}” "
            f"({len(profile.keywords)} keywords, {len(profile.categories)} categories, "
            f"{profile.matching} matching); digests of {len(built)} past days.\n"
            f"  Page   /p/{profile.slug}/\n"
            f"  Feeds  /p/{profile.slug}.rss  .atom  .json\n"
            f"  Day    manage.py digest --profile {profile.slug}\n"
            f"  Score  manage.py score --profile {profile.slug} --input papers.jsonl --json"
        )
