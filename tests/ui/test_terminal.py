"""Tables and bars of commands."""

import os
import pty

from webapp.ui.terminal import progress_bar, table


def test_a_table_is_aligned_whole_and_takes_no_text_for_markup() -> None:
    reason = "[bold]no[/bold] " + "x" * 300
    rows = [["cs.CL", "120", ""], ["漢字", "7", reason]]
    assert table(["category", "new", "why"], rows, right=["new"]).splitlines() == [
        "category  new  why",
        "cs.CL     120",
        f"漢字        7  {reason}",
    ]


def test_a_bar_is_for_terminals_alone(capfd) -> None:
    with progress_bar() as bar:
        bar.add_task("[cs.CL] today", total=2)
    assert capfd.readouterr() == ("", "")


def test_a_bar_says_the_step_as_it_is(monkeypatch) -> None:
    leader, follower = pty.openpty()
    with os.fdopen(follower, "w") as terminal:
        monkeypatch.setattr("sys.stderr", terminal)
        monkeypatch.setenv("TERM", "xterm")
        with progress_bar() as bar:
            bar.add_task("[cs.CL] today", total=2, completed=1)
            bar.refresh()
            seen = os.read(leader, 4096)
            while b"today" not in seen:
                seen += os.read(leader, 4096)
    os.close(leader)
    assert b"1/2" in seen
    assert b"[cs.CL] today" in seen
