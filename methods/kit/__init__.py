"""Code that several methods share.

=================  ===============================================================================
`kit.config`       `configuration`: a checked frozen dataclass; `Share`; `read_yaml`
`kit.seeds`        `seeded`: a block with its own random numbers; `generator`, `randn`
`kit.noise`        `gumbel`, `logistic`, `straight_through`
`kit.precision`    `unrounded`, `at_least_single`: what half precision must not decide or sum
`kit.frozen`       `load_frozen`: a transformers model from a configuration, a folder or the hub
`kit.corpus`       `stdlib`, `folder`: text as bytes, a tenth of it held out; `Corpus`
`kit.folders`      `training_in`, `read_json`, `unreadable`, `refuse`: people's own data
`kit.images`       `drawing`: a picture as SVG; `panels`: images whose patches are marked
`kit.checkpoint`   `Checkpoint`: the one format; `save_state`, `read_state`, `load_weights`
`kit.training`     `fit`: down a loss's gradient, with seeds, progress and exact resume; `Plan`
`kit.compare`      `difference`: largest absolute one of two tensors; `relative`; `largest`
`kit.report`       `Stages`: progress over several trainings; `Charts`: declared series, filled
=================  ===============================================================================

A method imports the module it needs: `from methods.kit.seeds import seeded`.
"""
