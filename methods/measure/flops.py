"""Count floating point operations as torch's FlopCounterMode does: 2 a multiply-add.

Matrix products, convolutions and attention count; element-wise work does not. Counting runs the
call once, on the meta device too, where nothing is computed or allocated.
"""

from collections.abc import Callable

from torch.utils.flop_counter import FlopCounterMode


def count(call: Callable[[], object]) -> int:
    """Operations of one ``call`` (2 a multiply-add), backward included if the call runs it."""
    with FlopCounterMode(display=False) as counter:
        call()
    return int(counter.get_total_flops())
