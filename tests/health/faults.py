"""Faults by checks: of each fault the rows that turn, with their actions; all others stay green.

Rows are written "check subject". Those of planning itself (`state.…`) turn too where a change is
due.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.health.hosts import (
    Edit,
    Host,
    at,
    gone,
    gpu,
    link,
    nvswitch,
    pcie,
    recorded,
    silent,
    torch,
    unlisted,
    xid,
)

WORKSTATION = "NVIDIA RTX PRO 6000 Blackwell Workstation Edition"
PERSISTENCED = "nvidia-persistenced.service"
MANAGER = "nvidia-fabricmanager.service"
RUNNING = {"active": "active", "enabled": "enabled"}
RELEASE = "main cab0508cf67a-1"
ADA = "NVIDIA L40S"
PACKAGE = ("dpkg", "packages", "nvidia-open")
OTHERS = [f"GPU {number}" for number in range(8)]


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with a host that was right."""

    edits: tuple[Edit, ...]
    turns: dict[str, str]
    """Row → action."""
    host: Host


def fault(*edits: Edit, host: Host | None = None, **turns: str) -> Fault:
    """A fault of the first host, unless another one is named."""
    return Fault(edits, turns, host or pcie())


def on(subject: str, *checks: str, action: str = "inspect") -> dict[str, str]:
    """Rows of one subject that turn in the same way."""
    return {f"{check} {subject}": action for check in checks}


FAULTS: dict[str, Fault] = {
    # --- driver, in four places --------------------------------------------------------------
    "another module in the kernel": fault(
        at("driver", "loaded", to="580.159.04"),
        at("kernel", "loaded", "nvidia", to="580.159.04"),
        **on("host", "driver.module", action="provision"),
        **{"state.reload nvidia": "provision"},
    ),
    "the proprietary module": fault(
        at("driver", "flavour", to="proprietary"),
        **on("host", "driver.flavour", action="provision"),
        **{"state.reload nvidia": "provision"},
    ),
    "another library": fault(
        at("driver", "library", to="595.58.03"),
        **on("host", "driver.library", action="provision"),
    ),
    "another package": fault(
        at(*PACKAGE, "version", to="595.58.03-1"),
        **{"driver.package nvidia-open": "provision", "state.driver 590.48.01": "provision"},
    ),
    "a candidate that an upgrade would take": fault(
        at("apt", "policy", "nvidia-open", "candidate", to="595.58.03-1"),
        **{"driver.pinned nvidia-open": "inspect"},
    ),
    "a foreign pin of one of the driver's packages": fault(
        at("apt", "policy", "nvidia-modprobe", "candidate", to="595.58.03-1"),
        **{"driver.pinned nvidia-modprobe": "inspect"},
    ),
    "library and module differ for NVML": fault(
        at("nvml", "exit", to=18),
        **{"driver.nvml nvidia-smi": "reboot"},
    ),
    "nvidia-smi hangs": fault(
        silent("nvml"),
        silent("gpus"),
        silent("topology"),
        **on("host", "driver.nvml", "gpu.count", "cuda"),
        **on(RELEASE, "environment.extensions"),
        **{f"gpu.present {subject}": "inspect" for subject in OTHERS},
    ),
    "the kernel does not say what module it has": fault(
        silent("driver"), **on("host", "driver.module"), **{"state.preflight driver": "inspect"}
    ),
    # --- GPUs that are not there -------------------------------------------------------------
    "the last GPU is gone": fault(gone(7), **on("host", "gpu.count"), **on("GPU 7", "gpu.present")),
    "one of the first GPUs is gone, and its slot is known": fault(
        gone(1), host=recorded(), **on("host", "gpu.count"), **on("GPU 1", "gpu.present")
    ),
    "a GPU on the bus that the driver does not see": fault(
        gone(5, bus=True),
        **on("host", "gpu.count"),
        **on("GPU 7", "gpu.present", action="reboot"),
    ),
    "a GPU on the bus that the driver does not see, and nobody expects": fault(
        gone(5, bus=True), host=unlisted(), **on("GPU 7", "gpu.present", action="reboot")
    ),
    "a GPU that is lost while nvidia-smi is asked": fault(
        silent("gpus", "GPU 0000:84:00.0 is lost"),
        **on("host", "gpu.count", action="reboot"),
        **{f"gpu.present {subject}": "reboot" for subject in OTHERS},
        **on(RELEASE, "environment.extensions"),
    ),
    "two GPUs are gone": fault(
        gone(6),
        gone(2),
        host=recorded(),
        **on("host", "gpu.count"),
        **on("GPU 2", "gpu.present"),
        **on("GPU 6", "gpu.present"),
    ),
    "another model": fault(gpu(4, name=WORKSTATION), **on("GPU 4", "gpu.present")),
    "a model that nobody knows": fault(
        gpu(4, name="NVIDIA Unheard 1"),
        **on("GPU 4", "gpu.present", "gpu.profile"),
        **on(RELEASE, "environment.extensions"),
    ),
    "another card in the slot": fault(
        gpu(4, uuid="GPU-0"), host=recorded(), **on("GPU 4", "gpu.card")
    ),
    # --- what each GPU has -------------------------------------------------------------------
    "PCIe x8": fault(gpu(3, link_width=8), **on("GPU 3", "gpu.link_width")),
    "PCIe x8 of a card that says it could no more": fault(
        gpu(3, link_width=8, link_width_max=8), **on("GPU 3", "gpu.link_width")
    ),
    "PCIe of a width that nobody tells": fault(
        gpu(3, link_width=None), **on("GPU 3", "gpu.link_width")
    ),
    "Gen4 of the slot": fault(
        gpu(3, link_gen_max=4, link_gen_host=4), **on("GPU 3", "gpu.link_gen")
    ),
    "Gen1 under load": fault(gpu(3, utilisation=50, processes=1), **on("GPU 3", "gpu.link_gen")),
    "a generation that nobody tells": fault(
        gpu(3, link_gen_max=None), **on("GPU 3", "gpu.link_gen")
    ),
    "Gen4 where Gen5 was recorded": fault(
        gpu(3, link_gen_max=4, link_gen_host=4), host=recorded(), **on("GPU 3", "gpu.link_gen")
    ),
    "BAR1 of 256 MiB": fault(gpu(2, bar1_total=256), **on("GPU 2", "gpu.bar1")),
    "half of the memory": fault(gpu(2, memory_total=48000), **on("GPU 2", "gpu.memory")),
    "a sixteenth of the memory is gone": fault(
        gpu(2, memory_total=97887 * 15 // 16), **on("GPU 2", "gpu.memory")
    ),
    "a stack of six of HBM is gone": fault(
        gpu(2, memory_total=143771 * 5 // 6), host=nvswitch(), **on("GPU 2", "gpu.memory")
    ),
    "a lower power limit": fault(gpu(6, power_limit=450.0), **on("GPU 6", "gpu.power_limit")),
    "a lower power limit than recorded": fault(
        gpu(6, power_limit=450.0), host=recorded(), **on("GPU 6", "gpu.power_limit")
    ),
    "ECC off": fault(gpu(0, ecc=False), **on("GPU 0", "gpu.ecc", action="reset")),
    # --- how each GPU does -------------------------------------------------------------------
    "persistence off": fault(
        gpu(5, persistence=False), **on("GPU 5", "gpu.persistence", action="restart")
    ),
    "uncorrectable errors": fault(
        gpu(5, ecc_uncorrectable=2), **on("GPU 5", "gpu.ecc_uncorrectable", action="reset")
    ),
    "errors of the SRAM": fault(
        gpu(5, ecc_uncorrectable=1, ecc_uncorrectable_ever=1),
        **on("GPU 5", "gpu.ecc_uncorrectable", action="reset"),
        **on("GPU 5", "gpu.ecc_sram"),
    ),
    "more errors of the SRAM than allowed": fault(
        gpu(5, sram_threshold_exceeded=True), **on("GPU 5", "gpu.sram_threshold")
    ),
    "a pending remap": fault(
        gpu(5, remap_pending=True), **on("GPU 5", "gpu.remap_pending", action="reset")
    ),
    "a failed remap": fault(gpu(5, remap_failure=True), **on("GPU 5", "gpu.remap_failure")),
    "all rows remapped": fault(gpu(5, remap_uncorrectable=513), **on("GPU 5", "gpu.remaps")),
    "some retired pages": fault(
        gpu(5, retired_pages=20), **on("GPU 5", "gpu.retired_pages", action="ignore")
    ),
    "too many retired pages": fault(gpu(5, retired_pages=63), **on("GPU 5", "gpu.retired_pages")),
    "a page to be retired": fault(
        gpu(5, retirement_pending=True), **on("GPU 5", "gpu.retirement_pending", action="reset")
    ),
    "the driver asks for a reset": fault(
        gpu(5, recovery_action="Reset"), **on("GPU 5", "gpu.recovery_action", action="reset")
    ),
    "the driver asks for a reboot": fault(
        gpu(5, recovery_action="Reboot"), **on("GPU 5", "gpu.recovery_action", action="reboot")
    ),
    "held back by heat": fault(
        gpu(1, slowdowns=["hw_slowdown", "hw_thermal_slowdown"]), **on("GPU 1", "gpu.slowdown")
    ),
    "held back by the power supply": fault(
        gpu(1, slowdowns=["hw_power_brake_slowdown"]), **on("GPU 1", "gpu.slowdown")
    ),
    "at its power limit": fault(
        gpu(1, slowdowns=["sw_power_cap"]), **on("GPU 1", "gpu.slowdown", action="ignore")
    ),
    "busy without a process": fault(
        gpu(7, utilisation=100, link_gen=5), **on("GPU 7", "gpu.stuck", action="reset")
    ),
    "a link that sends again and again": fault(gpu(7, replays=5000), **on("GPU 7", "gpu.replays")),
    # --- the kernel's log --------------------------------------------------------------------
    "Xid 79": fault(xid("0000:07:00", 79), **on("GPU 1", "gpu.xid", action="reboot")),
    "Xid 79 of a GPU that is gone": fault(
        gone(1),
        xid("0000:07:00", 79),
        host=recorded(),
        **on("host", "gpu.count"),
        **on("GPU 1", "gpu.present"),
        **on("GPU 1", "gpu.xid", action="reboot"),
    ),
    "Xid 79 of a GPU that is gone, and nobody recorded it": fault(
        gone(1),
        xid("0000:07:00", 79),
        **on("host", "gpu.count"),
        **on("GPU 7", "gpu.present"),
        **on("slot 0000:07:00", "gpu.xid", action="reboot"),
    ),
    "Xid 48": fault(xid("0000:06:00", 48), **on("GPU 0", "gpu.xid", action="reset")),
    "Xid 13 of an application, many times": fault(
        xid("0000:06:00", 13, 40), **on("GPU 0", "gpu.xid", action="restart")
    ),
    "Xid 45 behind Xid 119": fault(
        xid("0000:06:00", 119),
        xid("0000:06:00", 45),
        **on("GPU 0", "gpu.xid", action="reset"),
    ),
    "an Xid that we don't know": fault(xid("0000:06:00", 999), **on("GPU 0", "gpu.xid")),
    "a kernel's log that may not be read": fault(silent("xids"), **on("host", "gpu.xid")),
    # --- several GPUs together ---------------------------------------------------------------
    "an IOMMU that translates": fault(
        *(at("pci", index, "iommu", to="DMA-FQ") for index in range(8)),
        **on("host", "pcie.iommu", action="reboot"),
    ),
    "ACS redirects": fault(
        at("acs", "0000:05:00.0", to=True), **on("bridge 0000:05:00.0", "pcie.acs")
    ),
    "bridges that may not be read": fault(silent("acs"), **on("host", "pcie.acs")),
    "a matrix that nobody gives": fault(silent("topology"), **on("host", "topology")),
    "a GPU lost between list and matrix": fault(
        at("topology", "links", to=[["X", "PIX"], ["PIX", "X"]]), **on("host", "topology")
    ),
    "a card in another slot": fault(
        link(0, 1, to="NODE"),
        host=recorded(),
        **on("GPU 0", "gpu.links"),
        **on("GPU 1", "gpu.links"),
    ),
    "a firmware without NUMA nodes": fault(
        at("topology", "numa", 6, to=None), **on("GPU 6", "gpu.numa")
    ),
    "an NVLink that is down": fault(
        link(2, 3, to="SYS"),
        host=nvswitch(),
        **on("host", "allreduce.custom"),
        **on("GPU 2", "gpu.links"),
        **on("GPU 3", "gpu.links"),
    ),
    "no fabric manager": fault(
        at("units", MANAGER, to=None),
        host=nvswitch(),
        **on("host", "fabricmanager.service", action="restart"),
    ),
    "a fabric manager of another driver": fault(
        at("dpkg", "packages", "nvidia-fabricmanager", "version", to="580.159.04-1"),
        host=nvswitch(),
        **on("host", "fabricmanager.version", action="provision"),
        **{"state.driver 590.48.01": "provision"},
    ),
    "a GPU that the switches don't know": fault(
        gpu(3, fabric="In Progress"),
        host=nvswitch(),
        **on("GPU 3", "gpu.fabric", action="restart"),
    ),
    # --- the way to the GPUs -----------------------------------------------------------------
    "no device file of a GPU": fault(
        at("device_files", 2, to="nvidia-other"),
        **on("/dev/nvidia0", "device_file", action="restart"),
    ),
    "no device file for CUDA": fault(
        at("device_files", 0, to="nvidia-other"),
        **on("/dev/nvidia-uvm", "device_file", action="restart"),
    ),
    "containers without a way to GPUs": fault(
        at("units", "docker.service", to=RUNNING),
        **on("nvidia-container-toolkit", "containers"),
    ),
    # --- toolkits and environments -----------------------------------------------------------
    "a toolkit without nvcc": fault(
        at("toolkits", "installed", "12.8", to=None),
        **on("CUDA 12.8", "toolkit", action="provision"),
        **{"state.toolkits 12.8": "provision"},
    ),
    "`cuda` means a toolkit that nobody wants": fault(
        at("toolkits", "default", to="/usr/local/cuda-12.2"),
        **on("/usr/local/cuda", "toolkit.default"),
    ),
    "NumPy outside Numba's window": fault(
        at("environments", "main", "distributions", "numpy", to="2.4.0"),
        **on("main", "environment", "environment.numba", action="provision"),
        **{"state.environment main": "provision"},
    ),
    "files of a release changed": fault(
        at("environments", "main", "intact", to=False),
        **on(RELEASE, "environment.files", "environment.extensions", action="provision"),
        **{"state.environment main": "provision"},
    ),
    "GPUs of a model that came after the release was sealed": fault(
        *(gpu(index, name=ADA, memory_total=46068) for index in range(8)),
        host=unlisted(),
        **on(RELEASE, "environment.extensions"),
    ),
    "a release that was sealed while no GPU answered": fault(
        at("environments", "main", "proved", to={}), **on(RELEASE, "environment.extensions")
    ),
    "a driver that is too old for what is built": fault(
        at("nvml", "cuda", to="12.9"), **on("host", "cuda", action="provision")
    ),
    "a torch of a newer CUDA than the driver's": fault(
        torch(cuda="14.0"),
        **on("host", "cuda", action="provision"),
        **on("main", "environment", action="provision"),
        **{"state.environment main": "provision"},
    ),
    # --- the machine around them -------------------------------------------------------------
    "the persistence daemon has failed": fault(
        at("units", PERSISTENCED, "active", to="failed"),
        **on(PERSISTENCED, "service", action="restart"),
        **{f"state.persistence {PERSISTENCED}": "provision"},
    ),
    "upgrades without their guard": fault(
        at("files", "/etc/apt/apt.conf.d/52firstlight-unattended-upgrades", to=None),
        **{"state.unattended /etc/apt/apt.conf.d/52firstlight-unattended-upgrades": "provision"},
    ),
    "a clock that nobody sets": fault(
        at("clock", "synchronised", to=False), **on("host", "clock", action="restart")
    ),
    "a full disk": fault(
        *(at("disks", path, "free", to=10**8) for path in ("/", "/boot", "/var", "/opt")),
        **on("/", "disk"),
    ),
    "little locked memory": fault(
        at("limits", "memlock", to=65536), **on("login", "limit.memlock")
    ),
    "few open files": fault(at("limits", "nofile", to=1024), **on("login", "limit.nofile")),
    "a small /dev/shm": fault(at("limits", "shm", to=2**26), **on("login", "limit.shm")),
    "Secure Boot refuses the module": fault(
        at("secure_boot", "enabled", to=True),
        at("driver", "loaded", to=None),
        at("driver", "flavour", to=None),
        at("kernel", "loaded", "nvidia", to=None),
        **on("host", "driver.module", "driver.flavour", action="provision"),
        **on("host", "secure_boot"),
        **{"state.preflight secure boot": "inspect"},
    ),
}
