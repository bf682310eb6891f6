"""A wheelhouse's content: wheels that are none inside, with what stands beside them."""

import hashlib

from provision.wheelhouse import Manifest

CELL = "lab_kernels-1.0+cu131-cp311-cp311-linux_x86_64.whl"
"""Recipe lab-kernels on the finished host."""
BESIDE = (".json", ".provenance", ".html")


def put(folder, file, requires=(), archs=("9.0",)):
    """A wheel into a wheelhouse, with what stands beside it."""
    content = file.encode()
    manifest = Manifest(
        file=file,
        sha256=hashlib.sha256(content).hexdigest(),
        size=len(content),
        requires=requires,
        archs=archs,
        glibc="2.34",
    )
    (folder / file).write_bytes(content)
    for suffix in BESIDE:
        (folder / f"{file}{suffix}").write_text(manifest.model_dump_json())
    return manifest


def unreadable(path):
    """Something in its place whose bytes nobody reads."""
    path.unlink()
    path.mkdir()
