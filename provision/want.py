"""What one host should become: its stack, with what this host sets apart."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from provision.baseline import Baseline
from provision.inventory import Gpus, Site
from provision.stack import DriverPackages, Repository, Stack, Uv
from provision.wheelhouse import Manifest

if TYPE_CHECKING:
    from provision.facts import Os


@dataclass(frozen=True, kw_only=True, slots=True)
class Want:
    """Everything that planning needs to know of the wanted side."""

    stack: Stack
    uv: Uv
    gpus: Gpus | None = None
    site: Site = field(default_factory=Site)
    wheelhouse: tuple[Manifest, ...] = ()
    """What was built and may join environments."""
    repository: Repository | None = None
    """Instead of the stack's own, such as a lab host's."""
    baseline: Baseline | None = None
    """What the host was like when somebody found it right."""

    def repository_for(self, os: Os) -> Repository | None:
        """The apt repository for a distribution, None where the stack knows none."""
        return self.repository or self.stack.system.repository.get(distribution(os))

    def driver_for(self, os: Os) -> DriverPackages | None:
        """The driver's packages for a distribution, None where the stack knows none."""
        return self.stack.system.driver.packages(os.id)


def distribution(os: Os) -> str:
    """NVIDIA's name for a distribution, such as debian12 or ubuntu2404."""
    return f"{os.id}{os.version_id.replace('.', '')}"
