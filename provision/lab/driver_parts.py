"""What the packages of one driver have in common, whoever packages it."""

from __future__ import annotations

from dataclasses import dataclass

from provision.lab import driver_files as files
from provision.lab.debs import Content, Package, script, text

LIBRARIES = "usr/lib/x86_64-linux-gnu"
OPEN, PROPRIETARY = "Dual MIT/GPL", "NVIDIA"
"""The licences that modinfo shows."""

DAEMONS = {
    "nvidia-persistenced": files.PERSISTENCED,
    "nv-fabricmanager": files.FABRICMANAGER,
    "nvidia-imex": files.IMEX,
}
SMI = {"usr/bin/nvidia-smi": script(files.launcher("smi"))}
MODPROBE = {"usr/bin/nvidia-modprobe": script(files.launcher("nvidia_modprobe"))}
OPTIONS = {"etc/modprobe.d/nvidia.conf": text("# simulated: no options\n")}


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """Makes packages of a driver, all with one revision."""

    version: str
    revision: str

    @property
    def deb(self) -> str:
        """The version of the packages."""
        return self.version + self.revision

    def package(
        self,
        name: str,
        summary: str,
        *,
        needs: tuple[str, ...] = (),
        others: tuple[str, ...] = (),
        recommends: tuple[str, ...] = (),
        provides: tuple[str, ...] = (),
        conflicts: tuple[str, ...] = (),
        content: dict[str, Content] | None = None,
        scripts: dict[str, str] | None = None,
        section: str = "libs",
    ) -> Package:
        """A package that needs others at just its own version, and whatever `others` says.

        What it conflicts with it also replaces.
        """
        return Package(
            name=name,
            version=self.deb,
            summary=summary,
            depends=(*(f"{need} (= {self.deb})" for need in needs), *others),
            recommends=recommends,
            provides=provides,
            conflicts=conflicts,
            replaces=conflicts,
            files=content or {},
            scripts=scripts or {},
            section=section,
        )

    def libraries(self, *stems: str, aside: str = "") -> dict[str, Content]:
        """Libraries and their links; `aside` is a folder that only the links lead to."""
        found: dict[str, Content] = {}
        for stem in stems:
            file = f"{aside}{stem}.so.{self.version}"
            found[f"{LIBRARIES}/{file}"] = text(f"simulated {stem} {self.version}\n")
            found[f"{LIBRARIES}/{stem}.so.1"] = Content(link=file, mode=0o777)
        return found

    def source(self, licence: str, module: str = "nvidia") -> dict[str, Content]:
        """The module's source, for DKMS."""
        folder = f"usr/src/{module}-{self.version}"
        return {
            f"{folder}/dkms.conf": text(files.dkms_conf(self.version, module)),
            f"{folder}/license": text(f"{licence}\n"),
        }

    def firmware(self, folder: str) -> dict[str, Content]:
        """The GSP's firmware in a folder of /usr/lib/firmware/nvidia."""
        return {
            f"usr/lib/firmware/nvidia/{folder}/gsp_{chip}.bin": text(f"simulated {self.version}\n")
            for chip in ("ga10x", "tu10x")
        }


def daemon(unit: str, program: str) -> dict[str, Content]:
    """A daemon's program and its unit."""
    return {
        f"usr/bin/{program}": script(DAEMONS[program]),
        f"usr/lib/systemd/system/{unit}.service": text(files.unit(unit, program)),
    }
