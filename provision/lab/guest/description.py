"""The fields of the hardware description, to tell a misspelt one from one that is read."""

from __future__ import annotations

from collections.abc import Iterator

FIELDS = {
    "machine": "kernels cmdline nouveau nova_core secure_boot mok_enrolled iommu nvlink nvswitch "
    "smi_hangs model gpus bridges",
    "kernels": "running installed offered",
    "model": "name pci_name architecture compute_capability device subsystem memory_mib "
    "reserved_mib bar1_mib power_limit_w power_min_w idle_power_w idle_temperature_c idle_state "
    "max_sm_clock_mhz max_memory_clock_mhz ecc mig link_gen idle_link_gen link_width vbios "
    "board_part_number gpu_part_number open_module_only",
    "gpus": "slot uuid serial numa cpus switch iommu_group under faults",
    "faults": "absent silent link_width link_gen memory_mib bar1_mib power_limit_w ecc_off "
    "ecc_uncorrectable sram_uncorrectable remap_pending remap_failure slowdowns replays "
    "utilisation recovery_action xids",
    "bridges": "slot under vendor device numa iommu_group acs_redirect",
}
"""What holds a mapping, or several → the names there, as `provision/lab/hardware.py` has them: its
models need pydantic, which no guest has."""
KNOWN = {kind: frozenset(names.split()) for kind, names in FIELDS.items()}


def unknown(value: object, kind: str = "machine", path: str = "") -> Iterator[str]:
    """Where a description has fields that nothing reads, such as gpus[3].faults.link_widht."""
    if isinstance(value, list):
        for number, one in enumerate(value):
            yield from unknown(one, kind, f"{path}[{number}]")
    elif isinstance(value, dict) and kind in KNOWN:
        for name, inner in value.items():
            here = f"{path}.{name}" if path else name
            if name in KNOWN[kind]:
                yield from unknown(inner, name, here)
            else:
                yield here
