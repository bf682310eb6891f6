"""The parsers of what tells how GPUs do: nvidia-smi's odd answers, the kernel's log, bridges."""

import os
import resource

import pytest
from samples import accepted, capture

from provision import facts
from provision.remote.collectors import acs, device_files, gpus, limits, nvml, topology, xids
from provision.remote.command import Failed, Missing, Output


def said(name, status=0):
    return Output(status, capture(name), "")


# --- nvidia-smi --------------------------------------------------------------------------------


def test_an_older_driver_s_tags_and_what_it_lacks():
    (gpu,) = accepted("gpus", gpus.parse_gpus(said("nvidia-smi-older-driver-throttled.xml")))
    assert gpu.slowdowns == ["hw_slowdown", "hw_thermal_slowdown"]
    assert (gpu.retired_pages, gpu.retirement_pending) == (17, True)
    assert (gpu.remap_pending, gpu.remap_failure, gpu.remap_uncorrectable) == (None, None, None)
    assert (gpu.ecc_uncorrectable, gpu.ecc_uncorrectable_ever) == (4, 5)
    assert gpu.replays == 412
    assert (gpu.recovery_action, gpu.fabric, gpu.link_gen_host) == (None, None, None)


def test_what_no_driver_tells_is_no_slowdown_and_no_error_either():
    (gpu,) = accepted("gpus", gpus.parse_gpus(said("nvidia-smi-values-not-available.xml")))
    assert (gpu.slowdowns, gpu.ecc_uncorrectable_ever, gpu.replays) == (None, None, None)


def test_the_driver_s_version_under_its_newer_name():
    answer = said("nvidia-smi-renamed-610.xml")
    assert nvml.parse_nvml(answer)["driver"] == "610.57.04"
    assert [gpu["index"] for gpu in gpus.parse_gpus(answer)] == [0]


def test_a_gpu_that_is_lost_while_it_is_asked():
    answer = said("nvidia-smi-lost-mid-query.txt", 15)
    with pytest.raises(Failed, match=r"exits 15: Unable to determine .*GPU is lost"):
        gpus.parse_gpus(answer)
    assert nvml.parse_nvml(answer)["exit"] == 15


@pytest.mark.parametrize("cut", [200, 800, 1500])
def test_xml_that_is_cut_anywhere_is_never_taken_for_fewer_gpus(cut):
    with pytest.raises(Failed, match="truncated"):
        gpus.parse_gpus(Output(0, capture("nvidia-smi-h200x2.xml")[:cut], ""))


def test_eight_gpus_of_two_sockets_as_a_public_report_has_them():
    value = accepted("topology", topology.parse_topology(capture("topo-8-gpus-two-sockets.txt")))
    kinds = {frozenset(row) for row in value.links}
    assert kinds == {frozenset({"X", "PIX", "NODE", "SYS"})}
    assert [row.count("SYS") for row in value.links] == [4] * 8


# --- the kernel's log --------------------------------------------------------------------------


def test_xids_by_gpu_and_kind_with_the_last_line_of_each():
    found = accepted("xids", xids.parse_xids(capture("dmesg-xids.txt")))
    assert [(one.slot, one.code, one.count) for one in found] == [
        ("0000:06:00", 13, 2),
        ("0000:c6:00", 79, 1),
        ("0000:c6:00", 154, 1),
    ]
    assert found[0].text.startswith("13, pid=2211, name=python3, Graphics Exception: ESR")


def test_a_log_without_xids():
    assert xids.parse_xids("NVRM: loading NVIDIA UNIX Open Kernel Module\n") == []


def test_a_report_without_an_end_is_cut():
    (one,) = xids.parse_xids(f"NVRM: Xid (PCI:0000:06:00): 13, {'x' * 9000}\n")
    assert len(one["text"]) == xids.LONG


@pytest.fixture
def logs(monkeypatch):
    """What journalctl and dmesg say; None: there is no such program."""

    def make(journal, dmesg):
        def run(argv):
            if journal is None:
                raise Missing("no journalctl")
            return Output(0 if journal else 1, journal, "")

        def output(argv):
            if isinstance(dmesg, Exception):
                raise dmesg
            return dmesg

        monkeypatch.setattr(xids, "run", run)
        monkeypatch.setattr(xids, "output", output)
        return [one["code"] for one in xids.collect({})]

    return make


LINE = "NVRM: Xid (PCI:0000:06:00): 48, pid=1\n"


@pytest.mark.parametrize(
    ("journal", "dmesg", "codes"),
    [(LINE, "", [48]), ("", LINE, [48]), (None, LINE, [48]), ("", "", []), (LINE, LINE, [48])],
)
def test_the_journal_is_asked_first_and_the_kernel_s_buffer_where_it_has_nothing(
    logs, journal, dmesg, codes
):
    assert logs(journal, dmesg) == codes


def test_a_log_that_may_not_be_read_is_not_an_empty_one(logs):
    with pytest.raises(Failed, match="not permitted"):
        logs("", Failed("dmesg exits 1: read kernel buffer failed: Operation not permitted"))


# --- bridges -----------------------------------------------------------------------------------


def space(*capabilities, size=4096):
    """A configuration space with extended capabilities: (offset, id, next, control)."""
    data = bytearray(size)
    for at, number, following, control in capabilities:
        data[at : at + 4] = (number | 1 << 16 | following << 20).to_bytes(4, "little")
        data[at + 6 : at + 8] = control.to_bytes(2, "little")
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "redirects"),
    [
        (space((0x100, 0xD, 0, 0x1D)), True),
        (space((0x100, 0xD, 0, 0x08)), True),
        (space((0x100, 0xD, 0, 0x11)), False),  # SrcValid and UpstreamFwd, as root ports have
        (space((0x100, 0x1, 0x2A0, 0xFFFF), (0x2A0, 0xD, 0, 0x04)), True),
        (space((0x100, 0x1, 0, 0xFFFF)), False),
        (space((0x100, 0x1, 0x100, 0)), False),  # a list that bites its tail
        (space((0x100, 0x1, 0xFFF, 0)), False),  # a list that leads out of the space
    ],
)
def test_a_bridge_redirects_when_it_says_so(data, redirects):
    assert acs.redirects(data) is redirects


def test_a_space_that_only_root_may_read_whole():
    with pytest.raises(Failed, match="be root"):
        acs.redirects(bytes(64))


def test_all_bridges_above_gpus_and_no_others(tmp_path):
    tree = tmp_path / "devices/pci0000:00"
    bus = tmp_path / "bus"
    bus.mkdir()
    chain = "0000:00:01.1/0000:05:00.0/0000:06:00.0"
    for path, vendor, kind in (
        ("0000:00:01.1", "0x1022", "0x060400"),
        ("0000:00:01.1/0000:05:00.0", "0x1000", "0x060400"),
        (chain, "0x10de", "0x030200"),
        ("0000:00:02.1", "0x1022", "0x060400"),
        ("0000:00:02.1/0000:09:00.0", "0x8086", "0x020000"),
    ):
        folder = tree / path
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "vendor").write_text(f"{vendor}\n")
        (folder / "class").write_text(f"{kind}\n")
        (bus / folder.name).symlink_to(folder)
    assert acs.above(bus) == ["0000:00:01.1", "0000:05:00.0"]


# --- device files, limits ----------------------------------------------------------------------


def test_device_files():
    found = device_files.parse_names(["null", "nvidia0", "nvidia-uvm", "nvme0", "nvidiactl"])
    assert accepted("device_files", found) == ["nvidia0", "nvidia-uvm", "nvidiactl"]


def test_limits():
    assert limits.parse_limit(resource.RLIM_INFINITY) is None
    assert limits.parse_limit(65536) == 65536
    value = accepted("limits", limits.collect({}))
    assert isinstance(value, facts.Limits)
    room = os.statvfs("/dev/shm")  # noqa: S108
    assert value.shm == room.f_blocks * room.f_frsize
    assert value.nofile in (None, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
