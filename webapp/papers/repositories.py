"""The authors' repository: the one address of a code host that abstract and comment name."""

import re

_ADDRESS = re.compile(
    r"(?<![\w./-])(?:https?://)?(?:www\.)?"
    r"(?P<host>github\.com|gitlab\.com|bitbucket\.org|codeberg\.org|huggingface\.co)"
    r"/(?P<owner>[\w.-]{1,64})/(?P<name>[\w.-]{1,100})",
    re.IGNORECASE,
)


def repository(abstract: str, comment: str) -> str:
    """Its https address, or "" where none is named, or several: one of them may be another's."""
    named: dict[str, str] = {}
    for found in _ADDRESS.finditer(f"{abstract}\n{comment}"):
        name = found["name"].rstrip(".-_").removesuffix(".git")
        if name:
            address = f"https://{found['host'].lower()}/{found['owner']}/{name}"
            named.setdefault(address.lower(), address)
    return next(iter(named.values())) if len(named) == 1 else ""
