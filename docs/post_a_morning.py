"""Post a morning's papers to a channel of Slack or Feishu (Lark), once.

    python3 post_a_morning.py https://assay.example https://hooks.slack.com/services/…
    FEISHU_SECRET=… python3 post_a_morning.py https://assay.example \
        https://open.feishu.cn/open-apis/bot/v2/hook/… --profile mine --count 5

Needs only Python 3.11. With `ASSAY_TOKEN` it posts a private profile. Run it by cron on working
days; `--state FILE` remembers the day that was posted, so that none is posted twice.
"""

import argparse
import base64
import hashlib
import hmac
import json
import os
import sys
import time
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

SLACK_TEXT = 3000  # characters of one section; a message has at most 50 blocks
FEISHU_BYTES = 20_000  # of a request
TRIES = 4  # where the server asks to wait


def main() -> int:
    """Post; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("site", help="the address of the site")
    parser.add_argument("webhook", help="the incoming webhook of the channel")
    parser.add_argument("--profile", default="site")
    parser.add_argument("--count", type=int, default=10, help="papers at most (default: 10)")
    parser.add_argument("--state", type=Path, help="a file that remembers the last day posted")
    asked = parser.parse_args()
    try:
        day = digest(asked.site.rstrip("/"), asked.profile)
        if asked.state and asked.state.exists() and asked.state.read_text() == day["date"]:
            return 0
        papers = [entry for entry in day["entries"] if not entry["also_mentioned"]][: asked.count]
        if papers:
            is_feishu = "/open-apis/bot/" in urlsplit(asked.webhook).path
            post(asked.webhook, (feishu if is_feishu else slack)(asked.site, day["date"], papers))
        if asked.state:
            asked.state.write_text(day["date"])
    except (OSError, ValueError) as error:
        sys.stderr.write(f"Not posted: {error}\n")
        return 1
    return 0


def digest(site: str, profile: str) -> dict[str, Any]:
    """The latest day of a profile, from the API."""
    token = os.environ.get("ASSAY_TOKEN", "")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    address = f"{site}/api/v1/digests/{quote(profile, safe='')}"
    with urlopen(Request(address, headers=headers), timeout=60) as answer:  # noqa: S310
        day: dict[str, Any] = json.load(answer)
        return day


def why(entry: dict[str, Any]) -> str:
    """Return what a row of the site says of a paper: its sentence, and what it reports."""
    return " · ".join(filter(None, (entry["sentence"], entry["quote"])))


def slack(site: str, date: str, papers: list[dict[str, Any]]) -> dict[str, Any]:
    """A message of Slack: one section a paper, `&`, `<` and `>` escaped, as its rules ask."""

    def safe(text: str) -> str:
        return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

    blocks = [
        {"type": "section", "text": {"type": "mrkdwn", "text": text[:SLACK_TEXT]}}
        for text in (
            f"{entry['rank']}. <{link(site, entry)}|{safe(entry['paper']['title'])[:1000]}>\n"
            f"{safe(why(entry))[:1500]}"
            for entry in papers[:49]
        )
    ]
    title = f"Papers of {date}"
    head = {"type": "header", "text": {"type": "plain_text", "text": title}}
    return {"text": title, "blocks": [head, *blocks]}


def feishu(site: str, date: str, papers: list[dict[str, Any]]) -> dict[str, Any]:
    """A rich text of Feishu, signed where its robot has a secret; papers that fit 20 KB."""
    lines = [
        [
            {"tag": "a", "text": f"{entry['rank']}. {entry['paper']['title'][:500]}",
             "href": link(site, entry)},
            {"tag": "text", "text": f"\n{why(entry)[:800]}"},
        ]
        for entry in papers
    ]  # fmt: skip
    while lines:
        post = {"zh_cn": {"title": f"Papers of {date}", "content": lines}}
        message: dict[str, Any] = {"msg_type": "post", "content": {"post": post}}
        if len(json.dumps(message).encode()) < FEISHU_BYTES - 200:
            break
        lines.pop()
    if secret := os.environ.get("FEISHU_SECRET", ""):
        now = str(int(time.time()))
        key = f"{now}\n{secret}".encode()
        sign = base64.b64encode(hmac.new(key, b"", hashlib.sha256).digest()).decode()
        message |= {"timestamp": now, "sign": sign}
    return message


def link(site: str, entry: dict[str, Any]) -> str:
    """The paper's page on the site."""
    return f"{site.rstrip('/')}/papers/{entry['paper']['id']}/"


def post(webhook: str, message: dict[str, Any]) -> None:
    """Send a message; wait where the server asks for it. Raises ValueError with its reason."""
    body = json.dumps(message).encode()
    headers = {"Content-Type": "application/json; charset=utf-8"}
    for attempt in range(1, TRIES + 1):
        try:
            with urlopen(Request(webhook, body, headers), timeout=30) as answer:  # noqa: S310
                said = answer.read(10_000).decode("utf-8", "replace")
        except HTTPError as error:
            said = error.read(1000).decode("utf-8", "replace")
            if error.code != 429 or attempt == TRIES:
                raise ValueError(f"{error.code}: {said}") from None
            time.sleep(min(float(error.headers.get("Retry-After") or 1), 60))
            continue
        except URLError as error:
            raise ValueError(f"the webhook cannot be reached: {error.reason}") from None
        refused = said.strip() != "ok"
        if said.startswith("{"):
            told = json.loads(said)
            refused = told.get("code", told.get("StatusCode", -1)) != 0
            if told.get("code") == 11232 and attempt < TRIES:  # too many messages
                time.sleep(1)
                continue
        if refused:
            raise ValueError(said)
        return


if __name__ == "__main__":
    sys.exit(main())
