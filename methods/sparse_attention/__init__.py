"""Grouped-head sparse attention: sliding windows and strided anchors, side by side.

Importing this package is free of torch; the parts that compute live in its modules:
`api.sparse_attention` is the operator, `module.SparseAttention` the layer, `gpt2.GPT` the model.
"""
