"""nvidia-smi --query-gpu: the usual fields, as CSV."""

from __future__ import annotations

import sys
import time
from typing import Any

from . import state

UNITS = {
    "memory": "MiB",
    "power": "W",
    "clocks": "MHz",
    "utilization": "%",
}
"""First part of a field's name → its unit."""

ALIASES = {
    "gpu_name": "name",
    "gpu_uuid": "uuid",
    "gpu_serial": "serial",
    "gpu_bus_id": "pci.bus_id",
    "compute_capability": "compute_cap",
    "enforced.power.limit": "power.limit",
}


def answer(
    fields: list[str],
    style: list[str],
    gpus: list[dict[str, Any]],
    model: dict[str, Any],
    driver: str,
) -> int:
    """Print a table of fields; an unknown field is named and exits 2."""
    names = [field.strip() for field in fields]
    units = "nounits" not in style
    if "noheader" not in style:
        sys.stdout.write(", ".join(f"{name}{_header_unit(name)}" for name in names) + "\n")
    for gpu in gpus:
        known = _values(gpu, state.card(gpu, model), driver)
        cells: list[str] = []
        for name in names:
            value = known.get(ALIASES.get(name, name))
            if value is None:
                sys.stdout.write(f'Field "{name}" is not a valid field to query.\n\n')
                return 2
            unit = _unit(name)
            plain = value.startswith(("[", "N/A"))
            cells.append(f"{value} {unit}" if unit and units and not plain else value)
        sys.stdout.write(", ".join(cells) + "\n")
    return 0


def _unit(name: str) -> str:
    if name in ("clocks_throttle_reasons.active", "power.management"):
        return ""
    return UNITS.get(name.removeprefix("enforced.").partition(".")[0], "")


def _header_unit(name: str) -> str:
    unit = _unit(name)
    return f" [{unit}]" if unit else ""


def _values(gpu: dict[str, Any], model: dict[str, Any], driver: str) -> dict[str, str]:
    bus = f"0000{gpu['slot']}".upper()
    ecc = "[N/A]" if not model["ecc"] else "Disabled" if model["ecc_off"] else "Enabled"
    errors = str(model["ecc_uncorrectable"])
    return {
        "timestamp": time.strftime("%Y/%m/%d %H:%M:%S.000"),
        "driver_version": driver,
        "count": str(len(state.visible_gpus())),
        "index": str(gpu["index"]),
        "name": model["name"],
        "uuid": gpu["uuid"],
        "serial": gpu["serial"],
        "compute_cap": model["compute_capability"],
        "vbios_version": model["vbios"],
        "pstate": model["idle_state"],
        "persistence_mode": "Enabled" if state.persistent() else "Disabled",
        "compute_mode": "Default",
        "mig.mode.current": "Disabled" if model["mig"] else "[N/A]",
        "mig.mode.pending": "Disabled" if model["mig"] else "[N/A]",
        "ecc.mode.current": ecc,
        "ecc.mode.pending": ecc,
        "ecc.errors.corrected.volatile.total": "0",
        "ecc.errors.uncorrected.volatile.total": errors,
        "ecc.errors.corrected.aggregate.total": "0",
        "ecc.errors.uncorrected.aggregate.total": errors,
        "pci.bus_id": bus,
        "pci.domain": f"0x{bus[:8][-4:]}",
        "pci.bus": f"0x{bus[9:11]}",
        "pci.device": f"0x{bus[12:14]}",
        "pci.device_id": f"0x{model['device'].upper()}10DE",
        "pci.sub_device_id": f"0x{model['subsystem'].upper()}10DE",
        "pcie.link.gen.current": str(model["idle_link_gen"]),
        "pcie.link.gen.gpucurrent": str(model["idle_link_gen"]),
        "pcie.link.gen.max": str(model["link_gen"]),
        "pcie.link.gen.gpumax": str(model["most_gen"]),
        "pcie.link.gen.hostmax": str(model["slot_gen"]),
        "pcie.link.width.current": str(model["link_width"]),
        "pcie.link.width.max": str(model["most_width"]),
        "temperature.gpu": str(model["idle_temperature_c"]),
        "fan.speed": "[N/A]",
        "memory.total": str(model["memory_mib"]),
        "memory.reserved": str(model["reserved_mib"]),
        "memory.used": "0",
        "memory.free": str(model["memory_mib"] - model["reserved_mib"]),
        "utilization.gpu": str(model["utilisation"]),
        "utilization.memory": "0",
        "power.draw": f"{model['idle_power_w']:.2f}",
        "power.limit": f"{model['power_limit_w']:.2f}",
        "power.default_limit": f"{model['default_power_w']:.2f}",
        "power.min_limit": f"{model['power_min_w']:.2f}",
        "power.max_limit": f"{model['default_power_w']:.2f}",
        "clocks.sm": "180",
        "clocks.mem": "405",
        "clocks.max.sm": str(model["max_sm_clock_mhz"]),
        "clocks.max.mem": str(model["max_memory_clock_mhz"]),
        "clocks_event_reasons.active": "0x0000000000000001",
        "clocks_throttle_reasons.active": "0x0000000000000001",
        "gpu_recovery_action": model["recovery_action"],
        "gsp.mode.current": "Enabled",
    }
