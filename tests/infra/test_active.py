"""GPUs made to work, with `--active`: they must be idle, and are left as they were."""

import pytest

ACTIVE = {
    "GPUs could be made to work": "active.trials",
    "kernels compute right": "active.kernel",
    "host memory is as fast as its link": "active.bandwidth",
    "copies between GPUs arrive": "active.p2p",
    "all-reduces are right": "active.allreduce",
    "all-reduces through host memory end": "active.allreduce_host",
    "small all-reduces are quick": "active.latency",
    "large all-reduces are fast": "active.bus_bandwidth",
    "flash-attn is exact": "active.flash_attn",
    "vLLM sees CUDA": "active.vllm",
    "GPUs are idle again": "active.left",
}


@pytest.mark.parametrize("check", ACTIVE.values(), ids=ACTIVE)
def test_active(site, check, pytestconfig, record_property):
    if not pytestconfig.getoption("active"):
        pytest.skip("GPUs are made to work with --active")
    site.hold(record_property, check)
