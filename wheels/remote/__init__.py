"""What runs on the host that builds: standard library only, Python 3.10, imports only itself."""
