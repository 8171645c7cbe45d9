"""Settings from the environment: how they are declared and read, and those of every process.

The site declares its own beside these (``webapp.env``); a worker elsewhere reads these alone, so
neither Django nor Celery is imported here.
"""

import os
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

# What a relative ASSAY_DATA is relative to: the checkout; where this is installed, the folder that
# the process was started in.
CHECKOUT = Path(__file__).resolve().parent.parent
ROOT = CHECKOUT if (CHECKOUT / "manage.py").exists() else Path.cwd()
LARGEST = 2**31


class SettingError(Exception):
    """A setting is invalid; the message names it, its value and what is expected."""


def split_address(url: str) -> SplitResult:
    """The parts of an address. Raises ValueError, which shows no part of it."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:  # its message would show a part of the password
        raise ValueError("no address; in a password / is %2F, [ is %5B and # is %23") from None
    return parts


def _server(url: SecretStr) -> SecretStr:
    split_address(url.get_secret_value())
    return url


Words = Annotated[  # split at commas and blanks
    tuple[str, ...], NoDecode, BeforeValidator(lambda text: text.replace(",", " ").split())
]
OptionalPath = Annotated[Path | None, BeforeValidator(lambda text: text or None)]
Server = Annotated[SecretStr, AfterValidator(_server)]
Count = Annotated[int, Field(ge=0, le=LARGEST)]


def variable(default: str, name: str | None = None, **bounds: Any) -> Any:
    """Declare a variable with its default as written in a shell.

    Its name is the field's with the prefix ASSAY_; those that other software uses too have their
    own `name`.
    """
    return Field(default, validation_alias=name, **bounds)


def _name(field: str) -> str:
    return f"ASSAY_{field.upper()}"


class CommonSettings(BaseSettings):
    """Settings of every process. An empty variable counts as unset."""

    model_config = SettingsConfigDict(
        alias_generator=_name,
        env_ignore_empty=True,
        case_sensitive=True,
        extra="ignore",
        frozen=True,
        validate_default=True,
        hide_input_in_errors=True,
    )

    data: Path = variable("var")
    celery_broker_url: Server = variable("", "CELERY_BROKER_URL")
    lease: int = variable("30", ge=3, le=3600)
    models: Words = variable("")
    methods_path: str = variable("")
    worker_name: str = variable("")
    worker_key: SecretStr = variable("")
    worker_key_file: OptionalPath = variable("")
    worker_memory: Count = variable("0")
    bench_user: str = variable("")


def without_password(url: str) -> str:
    """A URL for printing: its password, if any, is replaced by ***."""
    before, at, rest = url.rpartition("@")
    scheme, slashes, user = before.rpartition("://")
    return f"{scheme}{slashes}{user.split(':')[0]}:***@{rest}" if at and ":" in user else url


AnySettings = TypeVar("AnySettings", bound=CommonSettings)


def read_as(kind: type[AnySettings]) -> AnySettings:
    """The settings that `kind` declares, from the environment. Raises SettingError."""
    try:
        return kind()
    except ValidationError as error:
        raise SettingError(_text_of(error, kind)) from None


@cache
def read() -> CommonSettings:
    """The settings of this process that every process has. Raises SettingError."""
    return read_as(CommonSettings)


def _text_of(error: ValidationError, kind: type[CommonSettings]) -> str:
    """The first error as text: `ASSAY_DEBUG='perhaps': Input should be a valid boolean`."""
    first = error.errors(include_url=False)[0]
    name = str(first["loc"][0])
    secret = {
        field.validation_alias
        for field in kind.model_fields.values()
        if field.annotation is SecretStr
    }
    value = "…" if name in secret else os.environ.get(name, "")
    advice = first["msg"].removeprefix("Value error, ")
    return f"{name}={without_password(value)!r}: {advice}"


def data_path() -> Path:
    """Return the path of the data directory, which may not exist yet. Raises SettingError."""
    return ROOT / read().data.expanduser()


def data_directory() -> Path:
    """The data directory, created if needed; what is made there is closed to other users.

    A process that writes there calls this first: loading the site alone changes nothing. Nor does
    it change who may read what was there before; `manage.py doctor` says where others may. Raises
    SettingError if it cannot be written.
    """
    path = data_path()
    os.umask(0o077)  # from here on only this user may read what this process writes
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingError(f"ASSAY_DATA={str(path)!r}: {error.strerror}") from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise SettingError(f"ASSAY_DATA={str(path)!r}: this user may not write there")
    return path
