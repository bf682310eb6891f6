"""What each task does: select hosts, do the work, render; returns the exit code."""
