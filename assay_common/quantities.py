"""Numbers and times as people read them, on a terminal, in a log and on a page."""


def duration(seconds: float) -> str:
    """``45 s``, ``3 min 20 s``, ``2 h 5 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def number(value: float, digits: int = 4) -> str:
    """A measured number as people read it: four significant digits, thousands kept whole."""
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e6:
        if float(value).is_integer():
            return f"{value:.0f}"
        if abs(value) < 1:
            return f"{value:.{digits}g}"
        return f"{value:.{max(0, digits - len(str(int(abs(value)))))}f}"
    return f"{value:.{digits - 1}e}"
