"""`manage.py mcp [--http PORT]`: the site for assistants, by the Model Context Protocol."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from webapp.api.assistants import server


class Command(BaseCommand):
    help = "Serve assistants with the Model Context Protocol, on stdio or over HTTP at /mcp."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--http", type=int, metavar="PORT", help="serve HTTP, with tokens")
        parser.add_argument("--host", default="127.0.0.1", help="listen here (%(default)s)")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["http"] is None:
            server(by_http=False).run("stdio")
            return
        server(by_http=True).run(
            "streamable-http",
            host=options["host"],
            port=options["http"],
            stateless_http=True,
            json_response=True,
        )
