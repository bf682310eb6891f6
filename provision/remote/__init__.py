"""What runs on hosts: standard library only, Python 3.10 or newer, imports only itself."""
