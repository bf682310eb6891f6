"""What runs inside a lab host: the simulated kernel side and NVIDIA's tools.

Standard library only; it is copied to /usr/lib/lab/guest and runs there with the guest's Python.
"""
