"""A Redis user for each bench worker, which may take jobs and cancels and send events, no more.

A worker's machine is not trusted: whatever it can reach in Redis, it could read and change.
"""

import logging
from functools import partial
from typing import Any

from django.conf import settings
from redis import Redis
from redis.exceptions import ConnectionError as AwayError
from redis.exceptions import RedisError, ResponseError

from assay_common import redis_broker
from webapp.runs import keys
from webapp.runs.models import Worker

MAILBOX = f"{redis_broker.CONTROL_EXCHANGE}.pidbox"
# The commands that kombu uses, on the keys below.
COMMANDS = (
    *("auth", "hello", "ping", "select", "multi", "exec", "discard", "evalsha"),
    "script|exists",  # and no "script|load": scripts take memory, and nothing ends that
    *("brpop", "rpop", "lpush", "rpush", "llen", "sadd", "srem", "smembers", "exists", "set"),
    *("pexpire", "time", "zrangebyscore"),
    *("get", "del", "hset", "hget", "hdel", "zadd", "zrem", "zrange", "zrevrangebyscore"),
    *("subscribe", "unsubscribe", "psubscribe", "punsubscribe"),
)

log = logging.getLogger(__name__)
_sent: set[tuple[str, str]] = set()  # (user, password) as this process last set them


def are_kept() -> bool:
    """False for the private Redis of `up`: only its owner can reach it."""
    return settings.CELERY_BROKER_URL.startswith(("redis://", "rediss://"))


def update() -> None:
    """Create the users that are missing in Redis, and delete those of removed workers.

    Never raises: with a broker without users, workers need its password in their CELERY_BROKER_URL.
    """
    if not are_kept():
        return
    try:
        with Redis.from_url(settings.CELERY_BROKER_URL, socket_timeout=2) as redis:
            _update(redis)
    except AwayError:
        return  # logged when the next message is sent
    except RedisError as error:
        log.warning("Redis takes no users for bench workers: %s", error)


def _update(redis: Redis) -> None:
    from kombu.transport import redis as transport  # noqa: PLC0415 - slow, for the sweep alone

    kombu: Any = transport  # its types lack them
    for script in (kombu.REFRESH_BINDING, kombu.SWEEP_BINDINGS):  # workers may load none
        redis.script_load(script)
    existing = {str(user) for user in redis.acl_users()}
    required = set()
    for worker in Worker.objects.all():
        user = redis_broker.worker_user(worker.name)
        password = redis_broker.worker_password(keys.key_of(worker))
        required.add(user)
        if user not in existing or (user, password) not in _sent:
            _set(redis, user, password, worker.name)
            _sent.add((user, password))
    for user in existing - required:
        if user.startswith(redis_broker.worker_user("")):
            redis.acl_deluser(user)


def _set(redis: Redis, user: str, password: str, name: str) -> None:
    reserved = [*redis_broker.worker_keys(name).values(), f"bench@{name}.{MAILBOX}*"]
    queues = [f"bench-{device}" for device in ("cpu", "gpu")]
    bound = [f"_kombu.binding*.{queue}" for queue in (*queues, MAILBOX)]
    bound.append("_kombu.binding_deadlines")
    reach = [f"~{key}" for key in (*reserved, *bound, *(f"{queue}*" for queue in queues))]
    commands = [f"+{command}" for command in COMMANDS]
    # Redis 6.2 begins with all channels, and then takes no pattern.
    rules = ["reset", "resetchannels", "on", f">{password}", *commands, *reach, f"&/0.{MAILBOX}"]
    set_user = partial(redis.execute_command, "ACL", "SETUSER", user, *rules)
    try:
        set_user(f"(+lpush ~{redis_broker.EVENTS})")
    except ResponseError:  # Redis before 7 has no rules for one command on one key
        set_user(f"~{redis_broker.EVENTS}")
