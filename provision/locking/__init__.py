"""One lock per environment: asked of uv for each Python, merged, and held to its stack."""
