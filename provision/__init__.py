"""Brings GPU hosts to the state that a stack wants, over SSH, and proves it."""

TOOL = "firstlight"
"""The tool's name on hosts: folders, units and files that it owns bear it."""
