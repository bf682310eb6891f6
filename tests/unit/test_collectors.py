"""All collectors together: on this machine, and when one of them misbehaves."""

import json
import threading
from types import SimpleNamespace

import pytest

from provision import facts
from provision.remote.collectors import COLLECTORS
from provision.remote.command import Missing
from provision.remote.probe import probe

ELSEWHERE = ("run", "simulations")
"""Facts whose collectors need more than the host itself."""

QUERY = {
    "packages": ["dpkg"],
    "policy": ["dpkg"],
    "files": ["/etc/hostname", "/none"],
    "units": ["ssh.service"],
    "environments": {"main": {"root": "/none", "wanted": []}},
    "uv": ["/none"],
    "compilers": ["gcc", "none"],
    "mounts": ["/"],
}


@pytest.fixture(scope="module")
def answer():
    return json.loads(json.dumps(probe(COLLECTORS, QUERY)))


def test_there_is_a_collector_for_every_fact():
    names = [collector.NAME for collector in COLLECTORS]
    expected = [name for name in facts.Facts.__annotations__ if name not in ELSEWHERE]
    assert [name for name in names if name not in ELSEWHERE] == expected


def test_every_collector_answers_on_this_machine(answer):
    wrong = {
        name: one for name, one in answer["facts"].items() if one["status"] not in ("ok", "absent")
    }
    assert wrong == {}


def test_every_answer_is_a_fact(answer):
    found = facts.parse(answer)
    unknown = {
        name: value
        for name in facts.Facts.__annotations__
        if isinstance(value := getattr(found, name), facts.Unknown)
    }
    assert set(unknown) <= set(ELSEWHERE)
    assert found.uv == {"/none": None}
    assert found.compilers["none"] is None


def test_query_that_asks_for_nothing():
    empty = {name: type(value)() for name, value in QUERY.items()}
    asked = [collector for collector in COLLECTORS if collector.NAME in ("disks", "uv")]
    value = facts.parse(probe(asked, empty))
    assert (value.disks, value.uv) == ({}, {})


def collector(name, collect):
    return SimpleNamespace(NAME=name, collect=collect)


def test_collectors_that_hang_fail_or_miss_leave_the_others_alone():
    released = threading.Event()

    def fail(query):
        raise ValueError("unreadable")

    def miss(query):
        raise Missing("no nvidia-smi")

    try:
        found = facts.parse(
            probe(
                [
                    collector("nvml", lambda query: released.wait(60)),
                    collector("gpus", fail),
                    collector("topology", miss),
                    collector("iommu", lambda query: {"groups": 3}),
                ],
                QUERY,
                deadline=0.1,
            )
        )
    finally:
        released.set()
    assert found.nvml == facts.Unknown("no answer within 0.1 s")
    assert found.gpus == facts.Unknown("ValueError: unreadable")
    assert found.topology == facts.Absent()
    assert found.iommu == facts.Iommu(groups=3)
