"""Count floating point operations as torch's FlopCounterMode does: 2 a multiply-add.

Matrix products, convolutions and attention count; element-wise work does not. Nor do the angles of
rotary embeddings, positions times frequencies: transformers writes them as a product of matrices in
some versions (5.15) and element by element in others (5.23), and the models cost the same. Counting
runs the call once, on the meta device too, where nothing is computed or allocated.
"""

from collections.abc import Callable

from torch.utils.flop_counter import FlopCounterMode


def count(call: Callable[[], object]) -> int:
    """Operations of one ``call`` (2 a multiply-add), backward included if the call runs it."""
    with FlopCounterMode(display=False) as counter:
        call()
    angles = sum(
        sum(operations.values())
        for module, operations in counter.get_flop_counts().items()
        if "rotary" in module.rpartition(".")[2].lower()  # LlamaRotaryEmbedding, model.rotary_emb
    )
    return int(counter.get_total_flops()) - angles
