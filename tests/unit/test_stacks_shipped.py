"""The shipped stacks: they agree with themselves, with their locks and with each other."""

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from provision import stack

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
SHIPPED = stack.names()
LOCKS = [(name, lock) for name in SHIPPED for lock in stack.load(name).environment]
ROW = re.compile(r"([a-z0-9._-]+)==(\S+)")
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def test_the_stacks_that_there_are():
    assert {"lab", "torch29-cu128"} <= set(SHIPPED)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_stack_loads(name):
    loaded = stack.load(name)
    assert loaded.name == name
    assert loaded.locks.keys() == loaded.environment.keys()


@pytest.mark.parametrize(("name", "environment"), LOCKS)
def test_a_lock_satisfies_its_stack_s_requirements(name, environment):
    loaded = stack.load(name)
    for python in loaded.environment[environment].pythons:
        versions = loaded.locks[environment].versions(python)
        for text in loaded.environment[environment].requirements:
            wanted = Requirement(text)
            assert wanted.specifier.contains(versions[canonicalize_name(wanted.name)]), text


@pytest.mark.parametrize(("name", "environment"), LOCKS)
def test_every_row_of_a_lock_is_pinned_and_hashed_and_names_no_address(name, environment):
    text = stack.load(name).locks[environment].text
    assert "://" not in text
    logical = text.replace("\\\n", " ").splitlines()
    plain = [re.sub(r" ; python_version .*?(?= --hash)", "", line) for line in logical]
    rows = [line.split() for line in plain if line and not line.startswith("#")]
    assert rows
    for pin, *hashes in rows:
        assert ROW.fullmatch(pin), pin
        assert hashes, f"{pin} has no hash"
        assert [word for word in hashes if not HASH.fullmatch(word)] == []


@pytest.mark.parametrize(("name", "environment"), LOCKS)
def test_the_versions_of_a_lock_are_read_whole(name, environment):
    lock = stack.load(name).locks[environment]
    rows = ROW.findall(re.sub(r"#.*", "", lock.text))
    assert [(pin.name, pin.version) for pin in lock.pins] == rows


@pytest.mark.parametrize(
    ("name", "distribution", "version"),
    [
        ("lab", "numba", "0.61.2"),
        ("lab", "numpy", "2.2.6"),
        ("torch29-cu128", "numba", "0.61.2"),
        ("torch29-cu128", "numpy", "2.2.6"),
        ("torch29-cu128", "torch", "2.9.1"),
        ("torch29-cu128", "vllm", "0.15.1"),
        ("torch29-cu128-sglang", "vllm", "0.15.1"),
    ],
)
def test_the_versions_that_were_asked_for(name, distribution, version):
    assert stack.load(name).locks["main"].versions("3.12.3")[distribution] == version


def test_hosts_get_the_uv_that_this_project_depends_on():
    pins = tomllib.loads(PYPROJECT.read_text())["project"]["dependencies"]
    assert f"uv=={stack.load_uv().version}" in pins


@pytest.mark.parametrize("name", SHIPPED)
def test_what_is_installed_of_the_driver_is_also_pinned(name):
    driver = stack.load(name).system.driver
    for distribution in ("debian", "ubuntu"):
        packages = driver.packages(distribution)
        assert {*packages.packages, packages.module} <= set(packages.pinned)
    assert driver.packages("plan9") is None


def test_the_toolkits_are_those_that_the_stack_wants_of_its_system():
    assert list(stack.load("lab").toolkit) == ["13.1", "12.8"]
    assert list(stack.load("lab-cuda131").toolkit) == ["13.1"]
    assert stack.load("lab-cuda131").system == stack.load("lab").system


@pytest.mark.parametrize("name", SHIPPED)
def test_what_is_not_kept_beside_a_driver_is_nothing_that_a_stack_wants(name):
    loaded = stack.load(name)
    wanted = [t.package for t in loaded.toolkit.values()]
    for distribution in ("debian", "ubuntu"):
        wanted += loaded.system.driver.packages(distribution).pinned
    patterns = loaded.system.driver.unwanted
    assert [(p, w) for p in patterns for w in wanted if fnmatch(w, p)] == []


def test_both_systems_know_the_same_gpus_and_repositories_but_not_the_same_driver():
    newer, older = (stack.load(name).system for name in ("lab", "torch211-cu130"))
    assert newer.driver.version != older.driver.version
    assert newer.driver.debian == older.driver.debian
    branch = older.driver.version.partition(".")[0]
    named = [name for name in older.driver.ubuntu.pinned if branch in name]
    assert {f"nvidia-open-{branch}", f"nvidia-dkms-{branch}-open"} <= set(named)
    assert newer.architecture == older.architecture
    assert newer.repository == older.repository
