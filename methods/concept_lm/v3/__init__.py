"""v3, planner–executor: plan a sequence of concepts first, then write the text from it alone."""
