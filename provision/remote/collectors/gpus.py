"""Every GPU as nvidia-smi's XML describes it."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree as ET

from provision.remote.collectors import nvidia_smi
from provision.remote.command import Failed, Output
from provision.remote.probe import Query

NAME = "gpus"
NUMBER = re.compile(r"(-?\d+(?:\.\d+)?) ?(?:MiB|W|C|%|x)?")
FLAGS = {"Enabled": True, "Disabled": False, "Yes": True, "No": False}
UNAVAILABLE = re.compile(
    r"|\[?(N/A|Not Supported|Unknown Error|ERR!)\]?|Requested functionality has been deprecated"
)
"""What nvidia-smi writes where it has no value."""

POWER_LIMIT = ("gpu_power_readings/current_power_limit", "power_readings/power_limit")
POWER_LIMIT_DEFAULT = (
    "gpu_power_readings/default_power_limit",
    "power_readings/default_power_limit",
)
"""Tags since driver 530, and before."""
UNCORRECTABLE = (
    "sram_uncorrectable_parity",
    "sram_uncorrectable_secded",
    "sram_uncorrectable",
    "dram_uncorrectable",
    "double_bit/total",
)
"""Counters of all generations; one GPU has some of them."""
SRAM = UNCORRECTABLE[:3]
REASON = re.compile(r"clocks_(?:event|throttle)_reason_(\w+)")
"""Tags since driver 535, and before."""
HELD_BACK = (
    *("sw_power_cap", "hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown"),
    "sw_thermal_slowdown",
)
"""Reasons for lower clocks that are no choice of the user's, and not idleness."""

RETIRED = ("multiple_single_bit", "double_bit")

Element = ET.Element


def collect(_query: Query) -> list[dict[str, Any]]:
    return parse_gpus(nvidia_smi.query())


def parse_gpus(said: Output) -> list[dict[str, Any]]:
    """All GPUs in nvidia-smi's order; Failed where it can't be told what each of them is."""
    if said.exit:
        raise Failed(f"nvidia-smi exits {said.exit}: {nvidia_smi.message(said) or 'no message'}")
    if lost := _lost(said.out):
        raise Failed(f"GPU {lost} is lost")
    log = _log(said)
    gpus = [_gpu(index, gpu) for index, gpu in enumerate(log.findall("gpu"))]
    attached = log.findtext("attached_gpus")
    if attached is not None and int(attached) != len(gpus):
        raise Failed(f"nvidia-smi describes {len(gpus)} of {attached} GPUs")
    return gpus


def _lost(text: str) -> str | None:
    """Address of the GPU whose values are "GPU is lost" (NVML_ERROR_GPU_IS_LOST)."""
    before, lost, _ = text.partition("GPU is lost")
    named = re.findall(r'<gpu id="([^"]+)"', before)
    return (slot(named[-1]) if named else "of unknown address") if lost else None


def _log(said: Output) -> Element:
    if "<nvidia_smi_log" not in said.out:
        raise Failed(f"nvidia-smi: {nvidia_smi.message(said) or 'no answer'}")
    try:
        return ET.fromstring(said.out)  # noqa: S314 - written by the host's own driver
    except ET.ParseError as error:
        if "</nvidia_smi_log>" not in said.out:
            raise Failed(f"nvidia-smi's XML is truncated: {error}") from error
        raise Failed(f"nvidia-smi's XML is damaged: {error}") from error


def _gpu(index: int, gpu: Element) -> dict[str, Any]:
    return {
        "index": index,
        "minor": _integer(gpu, "minor_number"),
        "uuid": _required(gpu, "uuid"),
        "name": _required(gpu, "product_name"),
        "slot": slot(gpu.get("id") or _required(gpu, "pci/pci_bus_id")),
        "performance_state": _text(gpu, "performance_state"),
        "recovery_action": _text(gpu, "gpu_recovery_action"),
        "processes": _processes(gpu),
        **_memory(gpu),
        **_power(gpu),
        "fabric": _text(gpu, "fabric/state"),
        "slowdowns": _slowdowns(gpu),
        **_errors(gpu),
        **_pages(gpu),
        **_link(gpu),
    }


def _memory(gpu: Element) -> dict[str, Any]:
    return {
        "memory_total": _integer(gpu, "fb_memory_usage/total"),
        "memory_used": _integer(gpu, "fb_memory_usage/used"),
        "bar1_total": _integer(gpu, "bar1_memory_usage/total"),
    }


def _power(gpu: Element) -> dict[str, Any]:
    return {
        "power_limit": _number(gpu, *POWER_LIMIT),
        "power_limit_default": _number(gpu, *POWER_LIMIT_DEFAULT),
        "temperature": _integer(gpu, "temperature/gpu_temp"),
        "persistence": _flag(gpu, "persistence_mode"),
        "utilisation": _integer(gpu, "utilization/gpu_util"),
    }


def _errors(gpu: Element) -> dict[str, Any]:
    return {
        "ecc": _flag(gpu, "ecc_mode/current_ecc"),
        "ecc_uncorrectable": _sum(gpu, *(f"ecc_errors/volatile/{name}" for name in UNCORRECTABLE)),
        "ecc_uncorrectable_ever": _sum(gpu, *(f"ecc_errors/aggregate/{name}" for name in SRAM)),
        "sram_threshold_exceeded": _flag(gpu, "ecc_errors/aggregate/sram_threshold_exceeded"),
    }


def _pages(gpu: Element) -> dict[str, Any]:
    counts = (f"retired_pages/{kind}_retirement/retired_count" for kind in RETIRED)
    return {
        "remap_uncorrectable": _integer(gpu, "remapped_rows/remapped_row_unc"),
        "remap_pending": _flag(gpu, "remapped_rows/remapped_row_pending"),
        "remap_failure": _flag(gpu, "remapped_rows/remapped_row_failure"),
        "retired_pages": _sum(gpu, *counts),
        "retirement_pending": _flag(gpu, "retired_pages/pending_retirement"),
    }


def _slowdowns(gpu: Element) -> list[str] | None:
    """None where nvidia-smi does not tell, as for most consumer cards of older drivers."""
    told = gpu.find("clocks_event_reasons")
    if told is None:
        told = gpu.find("clocks_throttle_reasons")
    reasons = {
        match[1]: (one.text or "").strip()
        for one in (told if told is not None else ())
        if (match := REASON.fullmatch(one.tag))
    }
    if not any(reasons.get(name) in ("Active", "Not Active") for name in HELD_BACK):
        return None
    return [name for name in HELD_BACK if reasons.get(name) == "Active"]


def _link(gpu: Element) -> dict[str, Any]:
    info = "pci/pci_gpu_link_info"
    return {
        "link_gen": _integer(gpu, f"{info}/pcie_gen/current_link_gen"),
        "link_gen_max": _integer(gpu, f"{info}/pcie_gen/max_link_gen"),
        "link_gen_gpu": _integer(gpu, f"{info}/pcie_gen/max_device_link_gen"),
        "link_gen_host": _integer(gpu, f"{info}/pcie_gen/max_host_link_gen"),
        "link_width": _integer(gpu, f"{info}/link_widths/current_link_width"),
        "link_width_max": _integer(gpu, f"{info}/link_widths/max_link_width"),
        "replays": _integer(gpu, "pci/replay_counter"),
    }


def _processes(gpu: Element) -> int:
    """All that hold the GPU, graphics too: any of them keeps the module from being unloaded."""
    processes = gpu.find("processes")
    if processes is None or (not len(processes) and (processes.text or "").strip()):
        raise Failed(f"nvidia-smi does not tell the processes of GPU {gpu.get('id')}")
    return len(processes.findall("process_info"))


def _text(gpu: Element, *paths: str) -> str | None:
    """Text at the first of the paths that has one."""
    for path in paths:
        text = (gpu.findtext(path) or "").strip()
        if not UNAVAILABLE.fullmatch(text):
            return text
    return None


def _required(gpu: Element, path: str) -> str:
    text = _text(gpu, path)
    if text is None:
        raise Failed(f"nvidia-smi states no {path} of GPU {gpu.get('id')}")
    return text


def _number(gpu: Element, *paths: str) -> float | None:
    match = NUMBER.fullmatch(_text(gpu, *paths) or "")
    return float(match[1]) if match else None


def _integer(gpu: Element, path: str) -> int | None:
    number = _number(gpu, path)
    return None if number is None else int(number)


def _sum(gpu: Element, *paths: str) -> int | None:
    """Of those counters that the GPU has; None where it has none of them."""
    known = [count for path in paths if (count := _integer(gpu, path)) is not None]
    return sum(known) if known else None


def _flag(gpu: Element, path: str) -> bool | None:
    return FLAGS.get(_text(gpu, path) or "")


def slot(address: str) -> str:
    """The kernel's spelling of a PCI address: nvidia-smi's domain has eight digits."""
    domain, _, rest = address.strip().lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"
