"""The toy's checks."""

from methods.spec import Case


def sums(device):
    yield Case(1 + 1, 2, "==")


def broken(device):
    yield Case(0.0, 1.0)
    raise ArithmeticError("no such\x1b[31m sum")


def empty(device):
    return ()


def wrong(device):
    yield from (Case(0.5, 1.0, label="half"), Case(3.0, 1.0, label="three"), Case(1.0, 1.0))
