"""nvidia-smi -q -x: the document with the tags of driver branch 580 and later."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any
from xml.sax.saxutils import escape

from . import state

NA = "N/A"
ZERO = "00000000-0000-0000-0000-000000000000"
DEPRECATED = "Requested functionality has been deprecated"
Node = Mapping[str, Any]


def document(
    gpus: list[dict[str, Any]], model: dict[str, Any], driver: str, cuda: str, *, nvlink: int
) -> str:
    """The whole document; a comment says that it is simulated."""
    lines = [
        '<?xml version="1.0" ?>',
        '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">',
        "<!-- simulated by the lab host -->",
        "<nvidia_smi_log>",
        *_lines("timestamp", time.strftime("%a %b %e %H:%M:%S %Y"), 1),
        *_lines("driver_version", driver, 1),
        *_lines("cuda_version", cuda, 1),
        *_lines("attached_gpus", len(state.visible_gpus()), 1),
    ]
    for gpu in gpus:
        own = state.card(gpu, model)
        bus = f"0000{gpu['slot']}".upper()
        lines.append(f'\t<gpu id="{bus}">')
        parts = {
            **_identity(gpu, own, driver),
            "pci": _pci(bus, own),
            **_condition(own),
            **_errors(own),
            **_readings(own),
            "fabric": _fabric(joined=bool(nvlink)),
            "supported_clocks": {
                "supported_mem_clock": {
                    "value": f"{model['max_memory_clock_mhz']} MHz",
                    "supported_graphics_clock": f"{model['max_sm_clock_mhz']} MHz",
                }
            },
            "processes": {},
            "accounted_processes": {},
            "capabilities": {"egm": "disabled"},
        }
        for tag, value in parts.items():
            lines += _lines(tag, value, 2)
        lines += ["\t</gpu>", ""]
    return "\n".join([*lines, "</nvidia_smi_log>"]) + "\n"


def _lines(tag: str, value: object, depth: int) -> list[str]:
    indent = "\t" * depth
    if not isinstance(value, Mapping):
        return [f"{indent}<{tag}>{escape(str(value))}</{tag}>"]
    inner = [line for key, each in value.items() for line in _lines(key, each, depth + 1)]
    return [f"{indent}<{tag}>", *inner, f"{indent}</{tag}>"]


def _same(value: object, prefix: str, *names: str) -> dict[str, object]:
    return {f"{prefix}{name}": value for name in names}


def _identity(gpu: dict[str, Any], model: dict[str, Any], driver: str) -> Node:
    mig = "Disabled" if model["mig"] else NA
    return {
        "product_name": model["name"],
        "product_brand": "NVIDIA",
        "product_architecture": model["architecture"],
        "display_mode": DEPRECATED,
        "display_attached": "Yes",
        "display_active": "Disabled",
        "persistence_mode": "Enabled" if state.persistent() else "Disabled",
        "addressing_mode": "None",
        "mig_mode": {"current_mig": mig, "pending_mig": mig},
        "mig_devices": "None",
        "accounting_mode": "Disabled",
        "accounting_mode_buffer_size": 4000,
        "driver_model": {"current_dm": NA, "pending_dm": NA},
        "serial": gpu["serial"],
        "uuid": gpu["uuid"],
        "pdi": f"0x{gpu['uuid'][-12:]}0000",
        "minor_number": gpu["index"],
        "vbios_version": model["vbios"],
        "multigpu_board": "No",
        "board_id": f"0x{gpu['slot'][5:7]}00",
        "board_part_number": model["board_part_number"],
        "gpu_part_number": model["gpu_part_number"],
        "gpu_fru_part_number": NA,
        "platformInfo": {
            **_same(NA, "", "chassis_serial_number", "slot_number", "tray_index", "host_id"),
            **_same(NA, "", "peer_type", "module_id", "gpu_fabric_guid"),
        },
        "inforom_version": _same(NA, "", "img_version", "oem_object", "ecc_object", "pwr_object"),
        "inforom_bbx_flush": _same(NA, "latest_", "timestamp", "duration"),
        "gpu_operation_mode": {"current_gom": NA, "pending_gom": NA},
        "c2c_mode": "Disabled",
        "gpu_virtualization_mode": {
            "virtualization_mode": "None",
            **_same(NA, "", "host_vgpu_mode", "vgpu_heterogeneous_mode"),
        },
        "gpu_recovery_action": model["recovery_action"],
        "gsp_firmware_version": driver,
        "ibmnpu": {"relaxed_ordering_mode": NA},
    }


def _pci(bus: str, model: dict[str, Any]) -> Node:
    current, most, width = model["idle_link_gen"], model["link_gen"], f"{model['link_width']}x"
    return {
        "pci_bus": bus[9:11],
        "pci_device": bus[12:14],
        "pci_domain": bus[4:8],
        "pci_base_class": 3,
        "pci_sub_class": 2,
        "pci_device_id": f"{model['device'].upper()}10DE",
        "pci_bus_id": bus,
        "pci_sub_system_id": f"{model['subsystem'].upper()}10DE",
        "pci_gpu_link_info": {
            "pcie_gen": {
                "max_link_gen": most,
                "current_link_gen": current,
                "device_current_link_gen": current,
                "max_device_link_gen": model["most_gen"],
                "max_host_link_gen": model["slot_gen"],
            },
            "link_widths": {
                "max_link_width": f"{model['most_width']}x",
                "current_link_width": width,
            },
        },
        "pci_bridge_chip": {"bridge_chip_type": NA, "bridge_chip_fw": NA},
        "replay_counter": model["replays"],
        "replay_rollover_counter": 0,
        "tx_util": "0 KB/s",
        "rx_util": "0 KB/s",
        "atomic_caps_outbound": NA,
        "atomic_caps_inbound": NA,
    }


def _condition(model: dict[str, Any]) -> Node:
    memory, reserved, bar1 = model["memory_mib"], model["reserved_mib"], model["bar1_mib"]
    reason, counter = "clocks_event_reason_", "clocks_event_reasons_counters_"
    sessions = _same(0, "", "session_count", "average_fps", "average_latency")
    return {
        "fan_speed": NA,
        "performance_state": model["idle_state"],
        "clocks_event_reasons": {
            f"{reason}gpu_idle": "Not Active" if model["utilisation"] else "Active",
            **_same("Not Active", reason, "applications_clocks_setting", "sw_power_cap"),
            **_same("Not Active", reason, "hw_slowdown", "hw_thermal_slowdown"),
            **_same("Not Active", reason, "hw_power_brake_slowdown", "sync_boost"),
            **_same("Not Active", reason, "sw_thermal_slowdown", "display_clocks_setting"),
            **_same("Active", reason, *model["slowdowns"]),
        },
        "clocks_event_reasons_counters": {
            **_same("0 us", counter, "sw_power_cap", "sync_boost", "sw_therm_slowdown"),
            **_same("0 us", counter, "hw_therm_slowdown", "hw_power_brake"),
        },
        "sparse_operation_mode": "Disabled",
        "fb_memory_usage": {
            "total": f"{memory} MiB",
            "reserved": f"{reserved} MiB",
            "used": "0 MiB",
            "free": f"{memory - reserved} MiB",
        },
        "bar1_memory_usage": {
            "total": f"{bar1} MiB",
            "used": "1 MiB",
            "free": f"{bar1 - 1} MiB",
        },
        "cc_protected_memory_usage": _same("0 MiB", "", "total", "used", "free"),
        "compute_mode": "Default",
        "utilization": {
            "gpu_util": f"{model['utilisation']} %",
            **_same("0 %", "", "memory_util", "encoder_util", "decoder_util"),
            **_same("0 %", "", "jpeg_util", "ofa_util"),
        },
        "encoder_stats": sessions,
        "fbc_stats": sessions,
        "dram_encryption_mode": _same(NA, "", "current_dram_encryption", "pending_dram_encryption"),
    }


def _errors(model: dict[str, Any]) -> Node:
    on = model["ecc"] and not model["ecc_off"]
    ecc = "Enabled" if on else "Disabled" if model["ecc"] else NA
    count = 0 if on else NA
    dram = {"dram_uncorrectable": model["ecc_uncorrectable"]} if on else {}
    sram = {"sram_uncorrectable_secded": model["sram_uncorrectable"]} if on else {}
    kinds = (
        *("sram_correctable", "sram_uncorrectable_parity", "sram_uncorrectable_secded"),
        *("dram_correctable", "dram_uncorrectable"),
    )
    retired = {"retired_count": NA, "retired_pagelist": NA}
    bank = "row_remapper_histogram_"
    return {
        "ecc_mode": {"current_ecc": ecc, "pending_ecc": ecc},
        "ecc_errors": {
            "volatile": {**_same(count, "", *kinds), **dram},
            "aggregate": {
                **_same(count, "", *kinds),
                **dram,
                **sram,
                "sram_threshold_exceeded": "No",
            },
            "aggregate_uncorrectable_sram_sources": _same(
                count, "sram_", "l2", "sm", "microcontroller", "pcie", "other"
            ),
            **_same("No", "", "channel_repair_pending", "tpc_repair_pending"),
            "unrepairable_memory": "No",
        },
        "retired_pages": {
            "multiple_single_bit_retirement": retired,
            "double_bit_retirement": retired,
            "pending_blacklist": NA,
            "pending_retirement": NA,
        },
        "remapped_rows": {
            **_same(0, "remapped_row_", "corr", "corr_inactive", "unc", "unc_inactive"),
            "remapped_row_pending": "Yes" if model["remap_pending"] else "No",
            "remapped_row_failure": "Yes" if model["remap_failure"] else "No",
            "row_remapper_histogram": {
                f"{bank}max": "512 bank(s)",
                **_same("0 bank(s)", bank, "high", "partial", "low", "none"),
            },
        },
    }


def _readings(model: dict[str, Any]) -> Node:
    limit, draw = f"{model['power_limit_w']:.2f} W", f"{model['idle_power_w']:.2f} W"
    heat = f"{model['idle_temperature_c']} C"
    top, memory = f"{model['max_sm_clock_mhz']} MHz", f"{model['max_memory_clock_mhz']} MHz"
    return {
        "temperature": {
            "gpu_temp": heat,
            "gpu_temp_tlimit": f"{86 - model['idle_temperature_c']} C",
            "gpu_temp_max_tlimit_threshold": "-5 C",
            "gpu_temp_slow_tlimit_threshold": "-2 C",
            "gpu_temp_max_gpu_tlimit_threshold": "0 C",
            "gpu_target_temperature": NA,
            "memory_temp": NA,
            "gpu_temp_max_mem_tlimit_threshold": NA,
        },
        "supported_gpu_target_temp": _same(NA, "gpu_target_temp_", "min", "max"),
        "gpu_power_readings": {
            "power_state": model["idle_state"],
            "average_power_draw": draw,
            "instant_power_draw": draw,
            "current_power_limit": limit,
            "requested_power_limit": limit,
            "default_power_limit": f"{model['default_power_w']:.2f} W",
            "min_power_limit": f"{model['power_min_w']:.2f} W",
            "max_power_limit": f"{model['default_power_w']:.2f} W",
        },
        "gpu_memory_power_readings": _same(NA, "", "average_power_draw", "instant_power_draw"),
        "module_power_readings": {
            "power_state": model["idle_state"],
            **_same(NA, "", "average_power_draw", "instant_power_draw", "current_power_limit"),
            **_same(NA, "", "requested_power_limit", "default_power_limit"),
            **_same(NA, "", "min_power_limit", "max_power_limit"),
        },
        "power_smoothing": NA,
        "power_profiles": _same(NA, "power_profile_", "requested_profiles", "enforced_profiles"),
        "clocks": {
            **_same("180 MHz", "", "graphics_clock", "sm_clock"),
            "mem_clock": "405 MHz",
            "video_clock": "600 MHz",
        },
        "applications_clocks": _same(DEPRECATED, "", "graphics_clock", "mem_clock"),
        "default_applications_clocks": _same(DEPRECATED, "", "graphics_clock", "mem_clock"),
        "deferred_clocks": {"mem_clock": NA},
        "max_clocks": {
            **_same(top, "", "graphics_clock", "sm_clock"),
            "mem_clock": memory,
            "video_clock": top,
        },
        "max_customer_boost_clocks": {"graphics_clock": top},
        "clock_policy": _same(NA, "", "auto_boost", "auto_boost_default"),
    }


def _fabric(*, joined: bool) -> Node:
    return {
        "state": "Completed" if joined else NA,
        "status": "Success" if joined else NA,
        "cliqueId": "0" if joined else NA,
        "clusterUuid": ZERO if joined else NA,
        "health": {
            **_same(NA, "", "summary", "bandwidth", "route_recovery_in_progress"),
            **_same(NA, "", "route_unhealthy", "access_timeout_recovery"),
            **_same(NA, "", "incorrect_configuration", "partition_assigned"),
        },
    }
