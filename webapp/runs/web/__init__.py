"""The pages of runs: forms, a run's page, the list, comparing, the workers, files and feeds."""
