"""A job to test with."""

from methods import protocol

JOB = protocol.Job(
    run="run",
    attempt=1,
    token="token",
    method="trial",
    benchmark="sleep",
    version=1,
    params={"seconds": 0.5, "words": "a b", "none": None, "list": [1, 2]},
    seed=7,
    limits=protocol.Limits(seconds=60),
)
