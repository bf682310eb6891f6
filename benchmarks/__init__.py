"""What a run costs, measured beside its peers. Nothing here asserts a time."""
