"""Time limits of the protocol, on the site's clock. All follow from one setting, the lease."""

from datetime import timedelta

from assay_common import env

LEASE = timedelta(seconds=env.read().lease)  # silence after which a worker is lost
HEARTBEAT = LEASE / 6  # interval of the workers' heartbeats and of the sweep
ALIVE = 4 * HEARTBEAT  # a worker that is silent for longer gets no new run
RESEND = 2 * HEARTBEAT  # after which a job that no worker has started is sent again
START = 2 * LEASE  # after which a job that no worker has started is given up
CANCEL = LEASE  # after which an unanswered cancel counts as done
PAUSE = 3 * HEARTBEAT  # a longer time between two lease checks is a pause of the site
PROMPT = HEARTBEAT  # a message that took longer was in a backlog
OVERTIME = 2 * LEASE  # past its limit, after which the site ends a run that its worker has not
