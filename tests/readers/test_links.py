"""Sign-in links: once, for a day, and the first reader is the administrator."""

import os
from datetime import timedelta
from io import StringIO
from pathlib import Path
from threading import Barrier, Thread
from unittest.mock import Mock, patch

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.db import connection
from pytest_django import Settings

from webapp.readers import links
from webapp.readers.models import SignInLink
from workers.web import gunicorn

pytestmark = pytest.mark.django_db


def test_a_link_signs_in_once() -> None:
    reader = links.reader_named("ada")
    token = links.make_link(reader)
    assert links.redeem(token) == reader
    assert links.redeem(token) is None


def test_only_the_hash_is_kept() -> None:
    token = links.make_link(links.administrator())
    row = SignInLink.objects.values().get()
    assert token not in str(row)
    assert len(token) >= 43  # 256 bits


def test_a_link_expires() -> None:
    token = links.make_link(links.administrator(), timedelta(seconds=-1))
    assert links.redeem(token) is None


@pytest.mark.parametrize("token", ["", "no-such-token", "é" * 5000, "' OR 1=1 --"])
def test_a_wrong_token_is_nobodys(token: str) -> None:
    links.make_link(links.administrator())
    assert links.redeem(token) is None


def test_a_reader_who_was_switched_off_stays_out_and_keeps_the_link() -> None:
    reader = links.reader_named("ada")
    token = links.make_link(reader)
    User.objects.update(is_active=False)
    assert links.redeem(token) is None
    User.objects.update(is_active=True)
    assert links.redeem(token) == reader


def test_old_links_are_swept_away() -> None:
    reader = links.administrator()
    links.make_link(reader, timedelta(days=-2))
    links.make_link(reader)
    assert SignInLink.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_of_many_at_once_one_gets_in() -> None:
    token = links.make_link(links.administrator())
    gate, came = Barrier(8), []

    def come() -> None:
        gate.wait()
        try:
            came.append(links.redeem(token))
        finally:
            connection.close()

    threads = [Thread(target=come) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(came) == 8
    assert sum(reader is not None for reader in came) == 1


def test_the_first_is_the_administrator_and_the_next_are_readers() -> None:
    first, second = links.reader_named("ada"), links.reader_named("grace")
    assert first.is_superuser
    assert first.is_staff
    assert not second.is_superuser
    assert not second.is_staff
    assert not first.has_usable_password()
    assert links.administrator() == first == links.reader_named("ada")


def test_a_name_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValidationError):
        links.reader_named("a b/<script>")
    assert not User.objects.exists()


def test_the_command_prints_a_link_that_works() -> None:
    out = StringIO()
    call_command("sign_in_link", "--user", "ada", "--site", "https://assay.test", stdout=out)
    link = out.getvalue().strip()
    assert link.startswith("https://assay.test/sign-in/")
    reader = links.redeem(link.rstrip("/").rpartition("/")[2])
    assert reader is not None
    assert reader.username == "ada"


def test_the_command_refuses_in_words() -> None:
    with pytest.raises(CommandError, match="valid username"):
        call_command("sign_in_link", "--user", "a b")
    links.reader_named("ada")
    User.objects.update(is_active=False)
    with pytest.raises(CommandError, match="switched off"):
        call_command("sign_in_link", "--user", "ada")


def test_a_link_leads_to_where_the_site_listens(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.DATA_DIR = tmp_path
    call_command("sign_in_link")
    assert capsys.readouterr().out.startswith("http://localhost:8000/sign-in/")
    listener = Mock(**{"sock.getsockname.return_value": ("0.0.0.0", 8123)})
    with patch.dict(os.environ, ASSAY_DATA=str(tmp_path)):
        gunicorn.when_ready(Mock(LISTENERS=[listener]))
    call_command("sign_in_link")
    assert capsys.readouterr().out.startswith("http://localhost:8123/sign-in/")
    settings.BASE_URL = "https://assay.example"
    call_command("sign_in_link")
    assert capsys.readouterr().out.startswith("https://assay.example/sign-in/")


def test_a_site_without_an_administrator_gets_one_from_the_command() -> None:
    links.reader_named("ada")
    User.objects.update(is_superuser=False, is_staff=False)
    made = links.administrator()
    assert made.is_superuser
    assert made.is_staff
    assert links.administrator() == made


def test_a_reader_whom_another_process_makes_meanwhile_is_that_reader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two first commands at once on a new site."""
    make = links.new_reader

    def overtaken(name: str) -> User:
        make(name)
        return make(name)

    monkeypatch.setattr(links, "new_reader", overtaken)
    assert links.administrator() == User.objects.get(username="admin", is_superuser=True)
    with pytest.raises(ValidationError, match="valid username"):
        links.reader_named("no name")
