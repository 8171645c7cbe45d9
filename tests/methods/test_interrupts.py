"""An interrupt waits for the event being told, and comes once."""

import contextlib
import os
import signal

import pytest

from methods.interrupts import SIGNALS, Interruptible


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_interrupt_ends_the_run_and_the_second_does_nothing(number: int) -> None:
    before = signal.getsignal(number)
    with Interruptible():
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number", SIGNALS)
def test_an_interrupt_waits_until_what_is_held_is_done(number: int) -> None:
    told = []

    def tell(interrupts: Interruptible) -> None:
        with interrupts.held():
            os.kill(os.getpid(), number)
            told.append("whole")

    with Interruptible() as interrupts:
        with pytest.raises(KeyboardInterrupt):
            tell(interrupts)
        with interrupts.held():
            told.append("last words")
    assert told == ["whole", "last words"]


def test_once_told_to_ignore_nothing_interrupts() -> None:
    with Interruptible() as interrupts:
        interrupts.ignore()
        os.kill(os.getpid(), signal.SIGTERM)


def test_an_interrupt_that_somebody_swallowed_is_raised_at_the_next_event() -> None:
    interrupts = Interruptible()
    with interrupts:
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt), interrupts.held():
            pass
        with interrupts.held():
            pass
