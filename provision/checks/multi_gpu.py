"""Whether several GPUs can work together: their links, what stands between them, the switches.

IOMMU translation, and ACS redirection on a bridge, make peer-to-peer traffic over PCIe hang or
crawl (NCCL user guide, troubleshooting: PCI Access Control Services). vLLM's custom all-reduce
takes two GPUs, or more where all are joined by NVLink (vllm, custom_all_reduce.py).
"""

from __future__ import annotations

from provision.checks.cards import Card, cards
from provision.checks.finding import Action, Finding, compare, judge, unknown, unseen
from provision.facts import Dpkg, Driver, Facts, Topology, Unit
from provision.want import Want

SWITCH = "0680"
"""PCI class of an NVSwitch (PCI ID registry: bridge, other)."""
MANAGER = "nvidia-fabricmanager"
STRAIGHT = ("identity", None)
"""Types of IOMMU groups that leave addresses as they are (kernel: iommu_groups/*/type)."""
NVLINK_DOWN = "an NVLink is down: see gpu.xid, and nvidia-smi nvlink --status"
MOVED = "a card sits in another slot, or the firmware joins slots otherwise than it did"
CUSTOM = 2
"""GPUs up to which vLLM's custom all-reduce works over PCIe."""


def check(want: Want, facts: Facts) -> list[Finding]:
    there = cards(want, facts)
    rows = _fabric(there, facts)
    if len(there) < 2:
        return rows
    if not isinstance(facts.topology, Topology):
        reason = unseen(facts.topology)
        return [*rows, unknown("topology", "host", expected="a matrix", reason=reason)]
    links = facts.topology.links
    rows.append(
        compare(
            "topology",
            "host",
            expected=f"{len(there)} GPUs in the matrix",
            observed=f"{len(links)} GPUs in the matrix",
            action=Action.INSPECT,
            reason="nvidia-smi's list and its matrix differ: a GPU was lost in between",
            noun="sees",
        )
    )
    if len(links) != len(there):
        return rows
    rows += [_link(want, there, card, links[at]) for at, card in enumerate(there)]
    rows += _numa(there, facts.topology)
    rows.append(_custom(there, links))
    return rows + ([] if all_nvlink(links) else [_iommu(facts), *_acs(facts)])


def blocking(facts: Facts) -> list[Finding]:
    """What stands between GPUs that meet over PCIe."""
    return [row for row in (_iommu(facts), *_acs(facts)) if not row.ok]


def all_nvlink(links: list[list[str]]) -> bool:
    """Every pair of GPUs is joined by NVLink."""
    return all(
        link.startswith("NV")
        for row, cells in enumerate(links)
        for column, link in enumerate(cells)
        if row != column
    )


def _link(want: Want, there: list[Card], card: Card, cells: list[str]) -> Finding:
    """A GPU's row of the matrix, as recorded, or all NVLink where the model has that."""
    expected = _expected(want, there, card) or [
        "NVLink" if card.sku and card.sku.nvlink and link != "X" else link for link in cells
    ]
    wrong = {
        f"{link} to {other.subject}": wanted
        for other, link, wanted in zip(there, cells, expected, strict=True)
        if link != wanted and not (wanted == "NVLink" and link.startswith("NV"))
    }
    nvlink = any(wanted.startswith("NV") for wanted in wrong.values())
    return judge(
        "gpu.links",
        card.subject,
        not wrong,
        expected=" ".join(expected),
        observed=", ".join(wrong) or " ".join(cells),
        action=Action.INSPECT,
        reason=f"slot {card.gpu.slot}: {NVLINK_DOWN if nvlink else MOVED}",
        noun="links",
    )


def _expected(want: Want, there: list[Card], card: Card) -> list[str]:
    """The recorded row, for the GPUs that are there; [] where any of them was not recorded."""
    base = want.baseline
    if not (base and base.links and all(one.recorded for one in there)):
        return []
    return [base.links[card.number][one.number] for one in there]


def _numa(there: list[Card], topology: Topology) -> list[Finding]:
    """With several sockets each GPU's node is known: processes are put beside their GPU by it."""
    if not any("SYS" in row for row in topology.links):
        return []
    return [
        judge(
            "gpu.numa",
            card.subject,
            node is not None,
            expected="a node",
            observed="no node" if node is None else f"node {node}",
            action=Action.INSPECT,
            reason="the firmware does not say to which socket the GPU belongs",
            noun="NUMA",
        )
        for card, node in zip(there, topology.numa, strict=True)
    ]


def _custom(there: list[Card], links: list[list[str]]) -> Finding:
    """Off is right where GPUs meet over PCIe; wrong where the models have NVLink."""
    joined = all_nvlink(links)
    possible = joined or len(there) <= CUSTOM
    meant = possible or all(card.sku and card.sku.nvlink for card in there)
    why = "all joined by NVLink" if joined else f"{len(there)} GPUs, not all joined by NVLink"
    return judge(
        "allreduce.custom",
        "host",
        possible == meant,
        expected="possible" if meant else f"off: {why}",
        observed=f"possible: {why}" if possible else f"off: {why}",
        action=Action.INSPECT,
        reason="vLLM falls back to NCCL: see gpu.links",
        noun="custom all-reduce",
    )


def _iommu(facts: Facts) -> Finding:
    expected = "off or passthrough"
    if not isinstance(facts.pci, list):
        reason = unseen(facts.pci)
        return unknown("pcie.iommu", "host", expected=expected, reason=reason, noun="IOMMU")
    mapped = {device.slot: device.iommu for device in facts.pci if device.iommu not in STRAIGHT}
    kinds = ", ".join(sorted({kind for kind in mapped.values() if kind}))
    return judge(
        "pcie.iommu",
        "host",
        not mapped,
        expected=expected,
        observed=f"translating ({kinds}) for {', '.join(mapped)}" if mapped else expected,
        action=Action.REBOOT,
        reason="peer-to-peer traffic hangs: iommu=pt on the kernel's command line (or the IOMMU "
        "off in the firmware); until then NCCL_P2P_DISABLE=1",
        noun="IOMMU",
    )


def _acs(facts: Facts) -> list[Finding]:
    if not isinstance(facts.acs, dict):
        return [unknown("pcie.acs", "host", expected="no redirection", reason=unseen(facts.acs))]
    return [
        judge(
            "pcie.acs",
            f"bridge {slot}",
            not redirects,
            expected="no redirection",
            observed="redirection to the root complex" if redirects else "no redirection",
            action=Action.INSPECT,
            reason="GPUs below it can't talk to each other directly: ACS off in the firmware, or "
            f"setpci -s {slot} ECAP_ACS+0x6.w=0000 after each boot; until then NCCL_P2P_DISABLE=1",
            noun="ACS has",
        )
        for slot, redirects in facts.acs.items()
    ]


def _fabric(there: list[Card], facts: Facts) -> list[Finding]:
    """NVSwitches need a fabric manager of exactly the driver's version; nobody else needs one."""
    rows = [
        judge(
            "gpu.fabric",
            card.subject,
            card.gpu.fabric == "Completed",
            expected="Completed",
            observed=card.gpu.fabric,
            action=Action.RESTART,
            reason=f"CUDA gives error 802 until then: systemctl restart {MANAGER}",
            noun="registration with the NVSwitches",
        )
        for card in there
        if card.gpu.fabric is not None
    ]
    if not isinstance(facts.pci, list) or not any(d.kind == SWITCH for d in facts.pci):
        return rows
    return [*rows, _manager(facts), _manager_version(facts)]


def _manager(facts: Facts) -> Finding:
    units = facts.units if isinstance(facts.units, dict) else {}
    unit = units.get(f"{MANAGER}.service") or Unit(active="missing", enabled="missing")
    return judge(
        "fabricmanager.service",
        "host",
        (unit.active, unit.enabled) == ("active", "enabled"),
        expected="active, enabled",
        observed=f"{unit.active}, {unit.enabled}",
        action=Action.RESTART,
        reason=f"NVSwitches need it: systemctl enable --now {MANAGER}",
    )


def _manager_version(facts: Facts) -> Finding:
    package = facts.dpkg.packages.get(MANAGER) if isinstance(facts.dpkg, Dpkg) else None
    loaded = facts.driver.loaded if isinstance(facts.driver, Driver) else None
    have = package.version.partition("-")[0] if package else "not installed"
    return judge(
        "fabricmanager.version",
        "host",
        have == loaded,
        expected=loaded,
        observed=have,
        action=Action.PROVISION,
        reason="it refuses a driver of another version",
    )
