"""Messages between a site and a machine that measures: jobs, events, their signed envelope.

A worker runs ``python -m methods run … --json -`` and reads one :class:`Line` of JSON an event;
it seals each as an :class:`Event` and sends it. The site seals a :class:`Job` the same way.
Everything that comes in is hostile until validated: unknown fields, non-finite numbers, over-long
texts, control characters and foreign signatures get no further than this module. No torch here.
"""

from assay_common.text import clean, clean_json, one_line

from .base import ProtocolError, Strict, canonical
from .measured import (
    Axis,
    Environment,
    Flag,
    Gpu,
    Limit,
    MachineState,
    Point,
    Ratio,
    Series,
    Variant,
    Verdict,
)
from .messages import (
    KINDS,
    MAX_EVENT_BYTES,
    MAX_LOG_BYTES,
    MEASURED,
    TERMINAL,
    Artefact,
    Cancelled,
    CheckResult,
    Event,
    Failed,
    Heartbeat,
    Job,
    Limits,
    Line,
    Log,
    Progress,
    Result,
    Started,
    parse_body,
    seal,
    unseal,
)
from .trace import TRACE_FILE, Block, Bound, Equation, Trace, TraceFile, TraceLine
