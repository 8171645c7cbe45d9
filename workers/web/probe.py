"""The web container's health check: `python -m workers.web.probe PORT` requests /healthz.

It sends a host that the site accepts, and claims TLS if the site requires it.
"""

import sys
from http.client import HTTPConnection, HTTPException

from webapp import env

SECONDS = 5


def trouble(port: int, seconds: float = SECONDS) -> str:
    """Return the reason why the site on this machine's `port` does not answer, or ""."""
    host = next((name.lstrip(".") for name in env.read().hosts if name != "*"), "localhost")
    headers = {"Host": host, "X-Forwarded-Proto": "https" if env.read().https else "http"}
    connection = HTTPConnection("127.0.0.1", port, timeout=seconds)
    try:
        connection.request("GET", "/healthz", headers=headers)
        status = connection.getresponse().status
    except (OSError, HTTPException) as error:
        return f"Port {port} does not answer: {error}"
    finally:
        connection.close()
    return "" if status == 200 else f"/healthz on port {port} answers {status}"


if __name__ == "__main__":
    sys.exit(trouble(int(sys.argv[1])) or 0)
