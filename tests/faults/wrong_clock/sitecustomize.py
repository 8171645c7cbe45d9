"""Sleep without an absolute deadline: libfaketime moves those that Python gives by a day."""

import select
import time

time.sleep = lambda seconds: select.select([], [], [], seconds)  # type: ignore[assignment]
