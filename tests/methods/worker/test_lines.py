"""Lines out of a stream of bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from methods.worker.lines import Lines


@given(st.lists(st.binary(max_size=50)), st.integers(1, 60))
def test_lines_do_not_depend_on_the_pieces(pieces: list[bytes], most: int) -> None:
    whole = b"".join(pieces) + b"\n"
    lines = Lines(most)
    found = [line for piece in [*pieces, b"\n"] for line in lines.feed(piece)]
    assert found == [line for line in whole.split(b"\n")[:-1] if len(line) <= most]
