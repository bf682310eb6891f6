"""The whole of stack torch29-cu128 on a lab host: `pytest -m full tests/lab/test_full_stack.py -s`.

It fetches gigabytes and takes minutes; it prints what docs/benchmarks.md tells.
"""

from __future__ import annotations

import time

import pytest

from provision import engine, lab
from provision.follow import Tell
from provision.resources import environment
from provision.target import Target, lab_spec, target
from tests.lab.hosts import host_entry, on_host

pytestmark = pytest.mark.full

STACK = "torch29-cu128"
CURRENT = f"{environment.ROOT}/main/current"
IMPORTS = "import torch, vllm, numba, numpy; from vllm import LLM; print(torch.__version__)"


@pytest.fixture(scope="module")
def host(finished):
    entry = host_entry("r-full", layer=finished).model_copy(update={"stack": STACK})
    lab.up(lab_spec(entry), fresh=True, say=lambda _: None)
    there = target(entry)
    yield there
    there.transport.close()
    lab.down(entry.name, discard=True)


def timed(what: str) -> Tell:
    """Prints how long a change took on the host."""

    def tell(event: dict) -> None:
        if event["event"] == "done":
            print(f"{what}: {event['seconds']} s on the host")  # noqa: T201

    return tell


def test_every_distribution_is_as_locked_and_can_be_imported(host: Target):
    seen = engine.provision(host, timed("the first release"))
    assert seen.plan.empty
    locked = host.want.stack.locks["main"].versions(seen.facts.os.python.version)
    assert seen.facts.environments["main"].distributions == locked
    on_host(host, f"{CURRENT}/bin/python -c '{IMPORTS}' | grep -x 2.9.1+cu128")


def test_a_host_that_is_right_costs_one_command_here_too(host: Target):
    before, start = host.transport.cost.execs, time.monotonic()
    assert engine.provision(host, lambda _: None).plan.empty
    assert host.transport.cost.execs - before == 1
    print(f"nothing to do: {time.monotonic() - start:.1f} s")  # noqa: T201


def test_a_second_release_is_gone_back_from_at_once(host: Target):
    first = engine.look(host).facts.environments["main"].release
    file = f"{environment.ROOT}/main/releases/{first}/bin/activate"
    on_host(host, f"touch -r {file} /root/as-it-was; touch {file}")
    second = engine.provision(host, timed("the second release, from uv's cache"))
    assert second.facts.environments["main"].release != first
    on_host(host, f"touch -r /root/as-it-was {file}")
    after = engine.switch_back(host, second, timed("going back"))
    assert after.facts.environments["main"].release == first
    assert after.plan.empty
