"""One file per question about the host: `collect` touches it, pure parsers read what it said."""

from types import ModuleType

from provision.remote.collectors import (
    apt,
    boot,
    clock,
    compilers,
    disks,
    dpkg,
    driver,
    environments,
    files,
    gpus,
    iommu,
    kernel,
    memory,
    nvml,
    pci,
    run,
    secure_boot,
    system,
    toolkits,
    topology,
    units,
    uv,
)

COLLECTORS: list[ModuleType] = [
    system,
    boot,
    dpkg,
    apt,
    files,
    kernel,
    driver,
    nvml,
    gpus,
    topology,
    pci,
    iommu,
    secure_boot,
    memory,
    disks,
    clock,
    toolkits,
    compilers,
    units,
    environments,
    uv,
    run,
]
"""In the order in which the facts are shown."""
