"""Every GPU that the inventory expects: there, whole, healthy, and joined as it should be.

A test for each GPU and each thing that is asked of it: `-k "GPU3 and PCIe"` is one of them.
"""

import pytest

from provision.checks.cards import cards

EACH = {
    "is there": "gpu.present",
    "is the card recorded": "gpu.card",
    "is a model that is known": "gpu.profile",
    "has its PCIe width": "gpu.link_width",
    "has its PCIe generation": "gpu.link_gen",
    "sends nothing again over PCIe": "gpu.replays",
    "has all memory behind BAR1": "gpu.bar1",
    "has its memory": "gpu.memory",
    "has its power limit": "gpu.power_limit",
    "has ECC on": "gpu.ecc",
    "is kept awake": "gpu.persistence",
    "has no memory errors": "gpu.ecc_uncorrectable",
    "has no errors of its SRAM": "gpu.ecc_sram",
    "is below the threshold of its SRAM": "gpu.sram_threshold",
    "has no pending remap": "gpu.remap_pending",
    "has no failed remap": "gpu.remap_failure",
    "has rows to remap to": "gpu.remaps",
    "has few retired pages": "gpu.retired_pages",
    "has no page to retire": "gpu.retirement_pending",
    "needs no recovery": "gpu.recovery_action",
    "is not stuck": "gpu.stuck",
    "runs at full clocks": "gpu.slowdown",
    "has no Xid": "gpu.xid",
    "has its links": "gpu.links",
    "has its NUMA node": "gpu.numa",
    "is known to the NVSwitches": "gpu.fabric",
}


def test_as_many_gpus_as_expected(site, record_property):
    site.hold(record_property, "gpu.count")


def test_no_xid_of_a_gpu_that_is_gone(site, record_property):
    """Nor a kernel's log that can't be read: its row is the host's."""
    others = {r.subject for r in site.rows if r.id == "gpu.xid"} - {
        f"GPU {card.number}" for card in cards(site.target.want, site.look.facts)
    }
    for subject in sorted(others):
        site.hold(record_property, "gpu.xid", subject)


@pytest.mark.parametrize("check", EACH.values(), ids=EACH)
def test_gpu(site, gpu, check, record_property):
    site.hold(record_property, check, None if gpu is None else f"GPU {gpu}")
