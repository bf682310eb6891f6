"""Simulated nvidia-smi: the driver's state decides what it says and how it exits."""

from __future__ import annotations

import signal
import sys
from typing import Any

from . import description, smi_query, smi_table, smi_xml, state

WRONG = 1
NO_DEVICE, NOT_LOADED, NO_LIBRARY, MISMATCH = 6, 9, 12, 18
CUDA = {"535": "12.2", "550": "12.4", "570": "12.8", "580": "13.0", "590": "13.1", "595": "13.2"}
"""Driver branch → the newest CUDA it serves."""

LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""  # noqa: E501


def main(argv: list[str]) -> int:
    """Answer like nvidia-smi."""
    words = argv[1:]
    machine = state.hardware()
    if path := next(description.unknown(machine), ""):  # a misspelt fault would pass for none
        sys.stderr.write(f"{state.HARDWARE.name}: {path}: unknown field\n")
        return WRONG
    if machine["smi_hangs"]:
        signal.pause()
    library = state.library_version()
    if library is None:
        sys.stdout.write(
            "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure "
            "that the NVIDIA Display Driver is properly installed and present in your system.\n"
            "Please also try adding directory that contains libnvidia-ml.so to your system PATH.\n"
        )
        return NO_LIBRARY
    driver = state.driver_version()
    if driver is None:
        sys.stdout.write(
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make "
            "sure that the latest NVIDIA driver is installed and running.\n\n"
        )
        return NOT_LOADED
    short = ".".join(library.split(".")[:2])
    if driver != library:
        sys.stdout.write(
            "Failed to initialize NVML: Driver/library version mismatch\n"
            f"NVML library version: {short}\n\n"
        )
        return MISMATCH
    cuda = CUDA[driver.partition(".")[0]]
    if words == ["--version"]:
        sys.stdout.write(
            f"NVIDIA-SMI version  : {library}\nNVML version        : {short}\n"
            f"DRIVER version      : {driver}\nCUDA Version        : {cuda}\n"
            "Hardware            : simulated by the lab host\n"
        )
        return 0
    gpus = _selected(words)
    if not gpus:
        sys.stdout.write("No devices were found\n")
        return NO_DEVICE
    return _answer(words, gpus, driver, cuda)


def _selected(words: list[str]) -> list[dict[str, Any]]:
    """The GPUs that -i names by number, bus id or uuid; without it all; each with its number."""
    wanted = ""
    for number, word in enumerate(words):
        if word in ("-i", "--id"):
            wanted = words[number + 1]
        elif word.startswith("--id="):
            wanted = word.partition("=")[2]
    gpus = [{**gpu, "index": number} for number, gpu in enumerate(state.visible_gpus())]
    names = set(filter(None, wanted.split(",")))
    return [
        gpu
        for gpu in gpus
        if not names or names & {str(gpu["index"]), gpu["uuid"], gpu["slot"], f"0000{gpu['slot']}"}
    ]


def _answer(words: list[str], gpus: list[dict[str, Any]], driver: str, cuda: str) -> int:
    machine = state.hardware()
    model = machine["model"]
    options = {word.partition("=")[0]: word.partition("=")[2] for word in words}
    fields = options.get("--query-gpu") or options.get("--query-compute-apps")
    if "-L" in words or "--list-gpus" in words:
        for gpu in gpus:
            sys.stdout.write(f"GPU {gpu['index']}: {model['name']} (UUID: {gpu['uuid']})\n")
    elif words[:1] == ["topo"]:
        sys.stdout.write(_topology(gpus, machine["nvlink"]) + LEGEND)
    elif fields:
        style = options.get("--format", "csv").split(",")
        if "--query-compute-apps" in options:
            gpus = []
        return smi_query.answer(fields.split(","), style, gpus, model, driver)
    elif "-q" in words or "--query" in words:
        if "-x" not in words and "--xml-format" not in words:
            sys.stderr.write("the simulated nvidia-smi answers -q only with -x\n")
            return 2
        sys.stdout.write(smi_xml.document(gpus, model, driver, cuda, nvlink=machine["nvlink"]))
    elif "-pm" in words or "--persistence-mode" in options:
        mode = words[words.index("-pm") + 1] if "-pm" in words else options["--persistence-mode"]
        _set_persistence(gpus, on=mode in ("1", "ENABLED"))
    elif "-r" in words or "--gpu-reset" in words:
        for gpu in gpus:
            sys.stdout.write(f"GPU {bus_id(gpu)} was successfully reset.\n")
        sys.stdout.write("All done.\n")
    else:
        sys.stdout.write(smi_table.table(gpus, model, driver, cuda))
    return 0


def bus_id(gpu: dict[str, Any]) -> str:
    """A slot as nvidia-smi writes it."""
    return f"0000{gpu['slot']}".upper()


def _set_persistence(gpus: list[dict[str, Any]], *, on: bool) -> None:
    if on:
        state.PERSISTENCE.touch()
    else:
        state.PERSISTENCE.unlink(missing_ok=True)
    for gpu in gpus:
        verb = "Enabled" if on else "Disabled"
        sys.stdout.write(f"{verb} persistence mode for GPU {bus_id(gpu)}.\n")
    sys.stdout.write("All done.\n")


def _topology(gpus: list[dict[str, Any]], nvlink: int) -> str:
    head = "\t".join(f"GPU{gpu['index']}" for gpu in gpus)
    rows = [f"\t\x1b[4m{head}\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m"]
    for gpu in gpus:
        cells = [_link(gpu, other, nvlink) for other in gpus]
        ends = [gpu["cpus"], str(gpu["numa"]), "", "N/A"]
        rows.append("\t".join([f"GPU{gpu['index']}", *cells, *ends]))
    return "\n".join(rows) + "\n"


def _link(one: dict[str, Any], other: dict[str, Any], nvlink: int) -> str:
    if one["slot"] == other["slot"]:
        return " X "
    if nvlink:
        return f"NV{nvlink}"
    if one["switch"] and one["switch"] == other["switch"]:
        return "PIX"
    return "NODE" if one["numa"] == other["numa"] else "SYS"
