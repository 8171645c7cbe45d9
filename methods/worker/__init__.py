"""On a machine that measures: takes jobs, supervises one benchmark at a time, sends events."""
