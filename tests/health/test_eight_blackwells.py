"""A host of 8 RTX PRO 6000 on two sockets, from what its tools print to what is said of it.

The outputs in `eight_blackwells` are modelled on public ones of such hosts, identifiers and
readings invented: a switch for every two GPUs, device files in another order than the GPUs, one
processor that is switched off, and the IOMMU off on the kernel's command line.
"""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
from rich.console import Console

from provision import facts, topology
from provision.remote.collectors import acs, boot, gpus, iommu, nvml, pci
from provision.remote.collectors import topology as matrix
from provision.remote.command import Output
from provision.report.topology import drawing
from tests.health import hosts
from tests.health.test_faults import wrong

HERE = Path(__file__).parent / "eight_blackwells"
SLOTS = [f"0000:{bus}:00.0" for bus in ("18", "19", "4a", "4b", "98", "99", "d2", "d3")]
REDIRECTS = "ReqRedir+ CmpltRedir+"
BITS = {"SrcValid": 0x01, "ReqRedir": 0x04, "CmpltRedir": 0x08, "UpstreamFwd": 0x10}
"""Of the ACS control register (linux/pci_regs.h), by lspci's words."""


def printed(name):
    return (HERE / name).read_text()


LSPCI, CMDLINE = printed("lspci.txt"), printed("cmdline.txt")


def space(acs_control):
    """A configuration space as sysfs has it, with the ACS capability that lspci names or none."""
    data = bytearray(4096)
    if acs_control:
        on = [bit for word, bit in BITS.items() if f"{word}+" in acs_control]
        data[0x100:0x104] = (0x000D | 1 << 16).to_bytes(4, "little")
        data[0x106:0x108] = sum(on).to_bytes(2, "little")
    return bytes(data)


def bus(root, lspci, group=""):
    """The kernel's tree of what lspci prints; `group` is how an IOMMU maps each device's addresses.

    Returns the folder that has a link to every device.
    """
    links = root / "bus"
    links.mkdir()
    for block in lspci.split("\n\n"):
        head, *more = block.splitlines()
        way, kind, name = head.split()
        said = dict(line.strip().split(": ") for line in more)
        slots = [f"0000:{slot}" for slot in way.split("/")]
        folder = root.joinpath("devices", f"pci{slots[0][:7]}", *slots)
        folder.mkdir(parents=True)
        vendor, device = name.split(":")
        files = {"vendor": f"0x{vendor}", "device": f"0x{device}", "class": f"0x{kind[:4]}00"}
        for file, text in {**files, "numa_node": said["NUMA node"]}.items():
            (folder / file).write_text(f"{text}\n")
        (folder / "config").write_bytes(space(said.get("ACSCtl", "")))
        (folder / "driver").symlink_to(f"/sys/bus/pci/drivers/{said['Kernel driver in use']}")
        if group:
            (folder / "iommu_group").mkdir()
            (folder / "iommu_group/type").write_text(f"{group}\n")
        (links / slots[-1]).symlink_to(folder)
    return links


@pytest.fixture
def probed(tmp_path, monkeypatch):
    """Has this project's own collectors look at the outputs, and gives the host that they see."""

    def look(lspci=LSPCI, *, cmdline=CMDLINE, group=""):
        links = bus(tmp_path, lspci, group)
        monkeypatch.setattr(acs, "BUS", links)
        monkeypatch.setattr(
            boot, "need", lambda path: cmdline.strip() if "cmdline" in path else "1"
        )
        groups = tmp_path / "iommu_groups"  # it is there, and empty, where the IOMMU is off
        groups.mkdir()
        for number in range(len(list(links.iterdir())) if group else 0):
            (groups / str(number)).mkdir()
        smi = Output(0, printed("nvidia-smi.xml"), "")
        raw = copy.deepcopy(hosts.pcie().raw)
        for name, value in {
            "gpus": gpus.parse_gpus(smi),
            "nvml": nvml.parse_nvml(smi),
            "topology": matrix.parse_topology(printed("topo-m.txt")),
            "pci": pci.devices(links),
            "acs": acs.collect({}),
            "iommu": iommu.groups(groups),
        }.items():
            raw["facts"][name] = {"status": "ok", "value": value}
        raw["facts"]["boot"]["value"]["cmdline"] = boot.collect({})["cmdline"]
        return hosts.Host(hosts.pcie().want, raw)

    return look


def parsed(host):
    return facts.parse(host.raw)


# --- facts ---------------------------------------------------------------------------------------


def test_eight_cards_each_with_its_own_device_file(probed):
    cards = parsed(probed()).gpus
    assert [card.slot for card in cards] == SLOTS
    assert [card.minor for card in cards] == [2, 3, 0, 1, 6, 7, 4, 5]
    assert len({card.uuid for card in cards}) == 8
    assert {card.name for card in cards} == {hosts.pcie().want.gpus.model}
    assert {(card.memory_total, card.bar1_total, card.power_limit) for card in cards} == {
        (97887, 131072, 600.0)
    }
    # Idle: what the link could do tells its generation, not what it does now.
    assert {(card.link_gen, card.link_gen_max, card.link_width) for card in cards} == {(1, 5, 16)}
    assert {(card.ecc, card.retired_pages, card.fabric) for card in cards} == {(True, None, None)}
    assert [card.temperature for card in cards] == [29, 31, 28, 30, 33, 35, 32, 34]


def test_two_nodes_and_matrix_and_bus_agree_on_them(probed):
    seen = parsed(probed())
    assert seen.topology.numa == [0] * 4 + [1] * 4
    on_the_bus = {device.slot: device.numa for device in seen.pci}
    assert [on_the_bus[card.slot] for card in seen.gpus] == seen.topology.numa
    assert set(seen.topology.cpus) == {"0-47,96-143", "48-95,144-190"}


def test_pairs_behind_switches_within_two_sockets(probed):
    seen = parsed(probed()).topology
    assert topology.kinds(seen) == ["PIX", "NODE", "SYS"]
    assert topology.islands(seen, topology.DIRECT) == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert topology.islands(seen, ("PIX", "NODE")) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_bridges_above_the_cards_and_none_beside_them(probed):
    seen = parsed(probed())
    roots, ports = ("15", "47", "95", "cf"), ("17", "49", "97", "d1")
    assert {bridge for bridge in seen.acs if bridge.endswith(":01.1")} == {
        f"0000:{root}:01.1" for root in roots
    }
    below = {bridge for bridge in seen.acs if bridge[5:7] in ports}
    assert below == {f"0000:{port}:0{n}.0" for port in ports for n in (0, 1)}  # no :04.0, a NIC's
    assert len(seen.acs) == 16


def test_an_iommu_that_is_off_on_the_command_line(probed):
    seen = parsed(probed())
    assert seen.boot.cmdline.endswith("amd_iommu=off iommu=off")
    assert seen.iommu.groups == 0
    assert {device.iommu for device in seen.pci} == {None}


# --- what is said of it --------------------------------------------------------------------------


def test_it_is_right(probed):
    rows = probed().rows()
    assert wrong(rows) == {}
    said = {f"{row.id} {row.subject}": row.observed for row in rows}
    assert said["gpu.count host"] == "8"
    assert said["gpu.links GPU 4"] == "SYS SYS SYS SYS X PIX NODE NODE"
    assert [said[f"gpu.numa GPU {number}"] for number in (3, 4)] == ["node 0", "node 1"]
    assert said["pcie.iommu host"] == "off or passthrough"
    assert said["allreduce.custom host"] == "off: 8 GPUs, not all joined by NVLink"
    assert said["cuda host"] == "driver up to 13.1, toolkits 12.8, 13.1, torch in no environment"


def test_an_iommu_that_translates_is_named_for_each_card(probed):
    cmdline = CMDLINE.replace(" amd_iommu=off iommu=off", "")
    rows = probed(cmdline=cmdline, group="DMA-FQ").rows()
    assert wrong(rows) == {"pcie.iommu host": "reboot"}
    (row,) = [row for row in rows if row.id == "pcie.iommu"]
    assert row.observed == f"translating (DMA-FQ) for {', '.join(SLOTS)}"


def test_an_iommu_that_passes_addresses_on_is_right(probed):
    host = probed(cmdline="ro iommu=pt\n", group="identity")
    assert parsed(host).iommu.groups == 28  # a group for every function
    assert wrong(host.rows()) == {}


@pytest.mark.parametrize(
    ("bridge", "turns"),
    [("17:00.0", {"pcie.acs bridge 0000:17:00.0": "inspect"}), ("17:04.0", {})],
    ids=["above a card", "above a network card"],
)
def test_a_port_that_redirects_is_named_when_cards_are_below_it(probed, bridge, turns):
    blocks = LSPCI.split("\n\n")
    there = [f"{bridge} 0604:" in block for block in blocks]
    assert there.count(True) == 1
    at = there.index(True)
    blocks[at] = blocks[at].replace("ReqRedir- CmpltRedir-", REDIRECTS)
    assert wrong(probed("\n\n".join(blocks)).rows()) == turns


def test_a_missing_device_file_is_the_one_of_the_card_s_own_number(probed):
    def without(there):
        there["device_files"]["value"].remove("nvidia6")

    assert wrong(probed().rows(without)) == {"device_file /dev/nvidia6": "restart"}


def test_topology_tells_where_tensor_parallelism_is_cheap(probed):
    console = Console(width=140, no_color=True)
    with console.capture() as caught:
        console.print(drawing("h", parsed(probed()).topology, range(8)))
    lines = caught.get().splitlines()
    drawn = [[cell.strip() for cell in line.split("│")] for line in lines if "│" in line]
    assert drawn[4][1:10] == ["SYS"] * 4 + ["·", "PIX", "NODE", "NODE", "1"]
    assert drawn[4][10] == "48-95,144-190"
    text = "\n".join(lines)
    assert "cheapest within GPU 0-1 | GPU 2-3 | GPU 4-5 | GPU 6-7" in text
    assert "beyond GPU 0-3 | GPU 4-7 it crosses sockets" in text
    assert "try NCCL_P2P_LEVEL=SYS" in text
    assert "custom all-reduce is off" in text
