"""Vision tokens of a LLaVA merged before and pruned inside the language model."""
