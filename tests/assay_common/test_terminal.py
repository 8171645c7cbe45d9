"""Tables on a terminal."""

from assay_common.terminal import table


def test_brackets_of_heads_and_cells_are_no_markup() -> None:
    lines = table(["time [s]", "[/x]"], [["1 [b]", "2"]], right=["time [s]"]).splitlines()
    assert [line.split() for line in lines] == [["time", "[s]", "[/x]"], ["1", "[b]", "2"]]
