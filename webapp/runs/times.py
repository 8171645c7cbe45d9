"""How long what may take: all of it follows from one setting, the lease. The web side's clock."""

from datetime import timedelta

from methods.charts import duration
from webapp import env

LEASE = timedelta(seconds=env.read().lease)  # silence after which a worker is lost
HEARTBEAT = LEASE / 6  # how often workers are heard of, and how often the sweep looks
ALIVE = 4 * HEARTBEAT  # a worker silent for longer is given nothing new
RESEND = 2 * HEARTBEAT  # a job nobody has started by then is sent again
START = 2 * LEASE  # a job nobody has started by then is given up
CANCEL = LEASE  # a cancel nobody has answered by then is taken as done
PAUSE = 3 * HEARTBEAT  # a longer pause between two judgements was ours
PROMPT = HEARTBEAT  # a message that took longer stood in a backlog
OVERTIME = 2 * LEASE  # past its limit, before the web side ends a run that its worker did not


def span(seconds: float) -> str:
    """A round stretch of time in words: `5 min`, `2 h`."""
    return duration(seconds).removesuffix(" 0 s").removesuffix(" 0 min")
