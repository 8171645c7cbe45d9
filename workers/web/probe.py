"""The web container's health check: `python -m workers.web.probe PORT` asks /healthz as a visitor.

With a host that the site answers to, and as if from behind TLS where it insists on that.
"""

from __future__ import annotations

import sys
from http.client import HTTPConnection, HTTPException

from webapp import env

SECONDS = 5


def main(port: int) -> int:
    """0 when the site answers on this machine's `port`; else 1, with the reason."""
    host = next((name.lstrip(".") for name in env.read().hosts if name != "*"), "localhost")
    headers = {"Host": host, "X-Forwarded-Proto": "https" if env.read().https else "http"}
    connection = HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    try:
        connection.request("GET", "/healthz", headers=headers)
        status = connection.getresponse().status
    except (OSError, HTTPException) as error:
        sys.stderr.write(f"Port {port} does not answer: {error}\n")
        return 1
    finally:
        connection.close()
    if status != 200:
        sys.stderr.write(f"/healthz on port {port} answers {status}\n")
    return int(status != 200)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
