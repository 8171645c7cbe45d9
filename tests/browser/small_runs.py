"""The site with quick runs of seconds, for walks that are not about what is measured.

Five processes or seeds stay: fewer make no interval. The presets as readers run them are measured
beside the site (benchmarks/README.md).
"""

from methods import registry
from webapp.wsgi import application

SMALL = {
    "concept_lm.decode": {"d": 64, "contexts": (64,), "seconds": 0, "max_warm_up_s": 0.0},
    "seps.retrieval": {"steps": 4, "batch": 8, "judged": 16},
    "sparse_attention.latency": {
        "lengths": (64, 128),
        "d_head": 16,
        "seconds": 0,
        "max_warm_up_s": 0.0,
    },
    "token_pruning.latency": {"size": "tiny", "text": 8, "seconds": 0, "max_warm_up_s": 0.0},
}
for name, sizes in SMALL.items():
    _, benchmark = registry.find(name)
    quick = benchmark.presets["quick"]
    benchmark.presets["quick"] = type(quick).model_validate(quick.model_dump() | sizes)  # type: ignore[index]

__all__ = ["application"]
