"""What `invoke verify` checks of a host, as plain testinfra asks it: a question each.

Run by `python -m benchmarks.verify` with pytest's `--hosts`; the expected values of a lab host
come in the environment.
"""

import json
import os

import pytest

WANTED = json.loads(os.environ["WANTED"])
DRIVER = WANTED["driver"]
GPUS = WANTED["gpus"]


def smi(host, *fields):
    """Rows of values, a row for each GPU."""
    query = f"nvidia-smi --query-gpu={','.join(fields)} --format=csv,noheader,nounits"
    return [line.split(", ") for line in host.check_output(query).splitlines()]


def test_module(host):
    assert host.file("/sys/module/nvidia/version").content_string.strip() == DRIVER


def test_flavour(host):
    assert host.file("/proc/driver/nvidia/version").contains("Open Kernel Module")


def test_library(host):
    assert host.file(f"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{DRIVER}").exists


def test_package(host):
    assert host.package("nvidia-open").version.startswith(DRIVER)


def test_pinned(host):
    assert f"Candidate: {DRIVER}" in host.check_output("apt-cache policy nvidia-open")


def test_nvml(host):
    assert smi(host, "driver_version") == [[DRIVER]] * GPUS


def test_count(host):
    assert len(smi(host, "uuid")) == GPUS


def test_model(host):
    assert smi(host, "name") == [[WANTED["model"]]] * GPUS


@pytest.mark.parametrize(
    ("fields", "right"),
    [
        (("pcie.link.width.current",), {"16"}),
        (("pcie.link.gen.max",), {"5"}),
        (("memory.total",), {"97887"}),
        (("power.limit",), {"600.00"}),
        (("ecc.mode.current",), {"Enabled"}),
        (("persistence_mode",), {"Enabled"}),
        (("ecc.errors.uncorrected.volatile.total",), {"0"}),
        (("ecc.errors.uncorrected.aggregate.total",), {"0"}),
        (("utilization.gpu",), {"0"}),
        (("clocks_event_reasons.active",), {"0x0000000000000001"}),
        (("gpu_recovery_action",), {"None"}),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_gpu(host, fields, right):
    assert {value for row in smi(host, *fields) for value in row} == right


def test_remaps(host):
    assert "<remapped_row_pending>Yes" not in host.check_output("nvidia-smi -q -x")


def test_replays(host):
    assert host.check_output("nvidia-smi -q -x").count("<replay_counter>0<") == GPUS


def test_xids(host):
    assert "NVRM: Xid" not in host.check_output("dmesg")


def test_topology(host):
    assert host.check_output("nvidia-smi topo -m").count("PIX\t") >= GPUS // 2


@pytest.mark.parametrize("slot", WANTED["bridges"])
def test_acs(host, slot):
    assert "ReqRedir+" not in host.check_output(f"lspci -vvv -s {slot.removeprefix('0000:')}")


def test_iommu(host):
    types = "cat /sys/bus/pci/devices/0000:06:00.0/iommu_group/type"
    assert host.check_output(types) == "identity"


@pytest.mark.parametrize("name", ["nvidiactl", "nvidia-uvm", "nvidia0", f"nvidia{GPUS - 1}"])
def test_device_file(host, name):
    assert host.file(f"/dev/{name}").exists


@pytest.mark.parametrize("release", WANTED["toolkits"])
def test_toolkit(host, release):
    assert f"release {release}" in host.check_output(f"/usr/local/cuda-{release}/bin/nvcc -V")


def test_default_toolkit(host):
    assert host.file("/usr/local/cuda").exists


@pytest.mark.parametrize(("name", "version"), WANTED["distributions"].items())
def test_distribution(host, name, version):
    path = "/opt/firstlight/environments/main/current/bin/python"
    ask = f"{path} -c 'import importlib.metadata as m; print(m.version(\"{name}\"))'"
    assert host.check_output(ask) == version


def test_service(host):
    service = host.service("nvidia-persistenced")
    assert service.is_running
    assert service.is_enabled


@pytest.mark.parametrize("path", ["/", "/var", "/opt"])
def test_disk(host, path):
    free = host.check_output(f"df --output=avail -B1 {path} | tail -1")
    assert int(free) > 5 * 2**30


def test_open_files(host):
    assert int(host.check_output("ulimit -Hn")) >= 4096


def test_shared_memory(host):
    assert int(host.check_output("df --output=size -B1 /dev/shm | tail -1")) >= 2**30


def test_guard_of_upgrades(host):
    file = host.file("/etc/apt/apt.conf.d/52firstlight-unattended-upgrades")
    assert file.contains("nvidia")
