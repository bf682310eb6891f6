"""What JUnit XML of `tests/infra` has of every row: its check and subject, and what it says."""

from __future__ import annotations

import pytest

from tests.health import hosts
from tests.infra.conftest import Site

NARROW = hosts.pcie().rows(hosts.gpu(3, link_width=8))


@pytest.mark.parametrize(
    ("check", "subject", "outcome", "properties"),
    [
        (
            *("gpu.link_width", "GPU 3", pytest.fail.Exception),
            [("gpu.link_width[GPU 3]", "GPU 3: PCIe x8 instead of x16 → inspect")],
        ),
        (
            *("gpu.fabric", "GPU 3", pytest.skip.Exception),
            [("gpu.fabric[GPU 3]", "nothing to check")],
        ),
    ],
)
def test_a_test_has_the_row_that_it_asks_for_as_a_property(check, subject, outcome, properties):
    said = []
    with pytest.raises(outcome):
        Site(None, None, NARROW).hold(lambda *one: said.append(one), check, subject)
    assert said == properties


def test_a_test_that_asks_for_all_subjects_has_a_property_for_each():
    said = []
    Site(None, None, NARROW).hold(lambda *one: said.append(one), "gpu.memory")
    assert [name for name, _ in said] == [f"gpu.memory[GPU {number}]" for number in range(8)]
