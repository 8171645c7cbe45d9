"""Language models that think in discrete concept tokens: three versions of one idea.

v1 is full-attention LoRA tuning; v2 compresses the context into concepts while it decodes
(`model.ConceptLM`); v3 plans a sequence of concepts first and writes the text from it (`v3`).
"""
