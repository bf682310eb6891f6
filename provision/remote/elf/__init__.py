"""Proves CUDA extensions from their files alone: without a GPU, and without importing them."""
