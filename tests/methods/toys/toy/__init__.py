"""A method whose benchmarks end in every way a run can end."""
