"""Links that sign a reader in, once."""

from contextlib import suppress
from datetime import timedelta
from hashlib import sha256
from secrets import token_urlsafe

from django.conf import settings
from django.contrib.auth.models import User
from django.core import signing
from django.core.exceptions import ValidationError
from django.core.mail import send_mail
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.urls import reverse
from django.utils import timezone, translation
from django.utils.translation import gettext as _

from webapp.readers.models import Preference, SignInLink

LIFETIME = timedelta(hours=24)
SAVE, SAVED_WITHIN = "save a paper", timedelta(days=90)  # what a token of a mail is good for
MAILED_A_DAY = 3  # unused links of one reader


def make_link(reader: User, lifetime: timedelta = LIFETIME) -> str:
    """A new token that signs `reader` in once within `lifetime`. Only its hash is kept."""
    token = token_urlsafe(32)
    now = timezone.now()
    SignInLink.objects.filter(expires_at__lt=now - LIFETIME).delete()
    SignInLink.objects.create(reader=reader, token_hash=hashed(token), expires_at=now + lifetime)
    return token


def redeem(token: str) -> User | None:
    """The reader whom an unused, unexpired token signs in; the token is then used.

    Of two requests with the same token one gets the reader: the row changes hands in one UPDATE.
    """
    now = timezone.now()
    # A join would become a subquery of the UPDATE, and PostgreSQL does not evaluate that again for
    # a row that another transaction has changed in the meantime.
    active = User.objects.filter(is_active=True)
    link = SignInLink.objects.filter(token_hash=hashed(token), reader__in=active)
    if not link.filter(used_at=None, expires_at__gt=now).update(used_at=now):
        return None
    return User.objects.get(signinlink__token_hash=hashed(token))


def site_address() -> str:
    """The site's address: as configured, else as its web server reports, else the default."""
    with suppress(OSError):
        return settings.BASE_URL or (settings.DATA_DIR / "address").read_text().strip()
    return "http://localhost:8000"


def page_address(name: str, *arguments: object, site: str = "") -> str:
    """The whole address of a page by its name, on this site or one given as `http://host/`."""
    return (site or site_address()).rstrip("/") + reverse(name, args=arguments)


def save_address(reader: User, arxiv_id: str) -> str:
    """The address at which `reader` saves a paper without signing in, for a mail."""
    return page_address("library:save", signing.dumps([reader.pk, arxiv_id], salt=SAVE))


def read_save_token(token: str) -> tuple[User, str]:
    """The reader and the paper of such an address. Raises BadSignature, or User.DoesNotExist."""
    reader_id, arxiv_id = signing.loads(token, salt=SAVE, max_age=SAVED_WITHIN)
    return User.objects.get(pk=reader_id, is_active=True), arxiv_id


def address(token: str, site: str = "") -> str:
    """The whole address to open for a token."""
    return page_address("readers:use-link", token, site=site)


def reader_named(name: str) -> User:
    """The reader of that name, created if there is none. Raises ValidationError as `new_reader`."""
    readers = User.objects.filter(username=name)
    try:
        return readers.first() or new_reader(name)
    except ValidationError:
        if made := readers.first():  # by another process meanwhile
            return made
        raise


@transaction.atomic
def new_reader(name: str) -> User:
    """A new reader without a password: links alone sign in. The first reader is the administrator.

    Raises ValidationError for a name that is taken or not allowed.
    """
    first = not User.objects.exists()
    reader = User(username=name, is_staff=first, is_superuser=first)
    reader.set_unusable_password()
    reader.full_clean(exclude=["password"], validate_unique=False)
    try:
        with transaction.atomic():
            reader.save()
    except IntegrityError:
        taken = _("There is already a reader called %(reader)s.")
        raise ValidationError(taken % {"reader": name}) from None
    return reader


def mail_link(address: str) -> None:
    """Mail a link to the reader of a confirmed address, at most three in a day; else do nothing.

    Raises OSError.
    """
    reader = User.objects.filter(email__iexact=address, is_active=True).first()
    if reader is None or not address:
        return
    unused = SignInLink.objects.filter(reader=reader, used_at=None, expires_at__gt=timezone.now())
    if unused.count() < MAILED_A_DAY:
        send_link(reader, address)


def send_link(reader: User, address_of_reader: str) -> None:
    """Mail a new link. Raises OSError if the mail server cannot be reached."""
    link = address(make_link(reader))
    with translation.override(Preference.preferred_language(reader)):
        send_mail(
            _("Your link to Assay"),
            _("This link signs you in as %(reader)s once, within a day:") % {"reader": reader}
            + f"\n\n{link}\n\n"
            + _("If you did not request it, ignore this mail.")
            + "\n",
            None,
            [address_of_reader],
        )


def administrator() -> User:
    """The first administrator; where there is none, a reader called admin who becomes one."""
    if first := _administrators().first():
        return first
    reader = reader_named("admin")
    reader.is_staff = reader.is_superuser = True
    reader.save(update_fields=["is_staff", "is_superuser"])
    return reader


def lock_administrators() -> set[int]:
    """Keys of the administrators who may sign in, locked until the transaction ends.

    Whatever takes an administrator's rights or account away locks them first: two administrators
    who remove each other at once would leave the site without one.
    """
    return set(_administrators().select_for_update().values_list("pk", flat=True))


def _administrators() -> QuerySet[User]:
    return User.objects.filter(is_superuser=True, is_active=True).order_by("pk")


def hashed(token: str) -> str:
    """Hash a token, for storing."""
    return sha256(token.encode()).hexdigest()
