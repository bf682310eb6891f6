"""Freezing what a host has become, and starting others on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from provision import lab
from provision.lab.store import lab_dir
from tests.lab.test_lab_host import Guest, only_lab_repository

LABEL = "t-lab-layer"
FIRST, SECOND = "t-lab-one", "t-lab-two"


def up(name: str, *, layer: str | None = LABEL, fresh: bool = True) -> Guest:
    spec = lab.LabSpec(name=name, hardware="none", layer=layer)
    return Guest(lab.up(spec, fresh=fresh, say=lambda _: None))


def kept() -> list[str]:
    return sorted(path.name for path in (lab_dir() / "layers").glob(f"{LABEL}.*"))


@pytest.fixture(scope="module", autouse=True)
def _layer() -> Iterator[None]:
    """A host with NVIDIA's source, a package and a journal, frozen."""
    for name in (FIRST, SECOND):
        lab.down(name, discard=True)
    lab.discard_layer(LABEL)
    try:
        guest = up(FIRST, layer=None)
        only_lab_repository(guest)
        guest.out("apt-get -qq -y install cuda-toolkit-config-common; rm /etc/apt/apt.conf.d/99lab")
        guest.out(
            "echo frozen | tee /root/mark /root/gone; mkdir /opt/x; touch /opt/x/a; rm -r /opt/x"
        )
        lab.freeze(FIRST, LABEL)
        yield
    finally:
        for name in (FIRST, SECOND):
            lab.down(name, discard=True)
        lab.discard_layer(LABEL)


def test_the_frozen_host_is_gone() -> None:
    assert lab.find(FIRST) is None
    assert kept() == [f"{LABEL}.1"]


def test_two_hosts_stand_on_one_layer_each_as_itself() -> None:
    one, two = up(FIRST), up(SECOND)
    for guest in (one, two):
        assert guest.out("cat /root/mark; hostname").split() == ["frozen", guest.host.name]
        assert guest.out("dpkg-query -W -f '${Status}' cuda-keyring") == "install ok installed"
        assert lab.sshd_sessions(guest.host.name) < 5, "sessions of the frozen host are counted"
    assert one.host.port != two.host.port
    keys = {
        guest.out("cat /etc/machine-id /etc/ssh/ssh_host_ed25519_key.pub") for guest in (one, two)
    }
    assert len(keys) == 2
    assert one.host.keyring_sha256 == two.host.keyring_sha256


def test_its_source_works_after_the_other_host_is_gone() -> None:
    one = Guest(lab.find(FIRST))
    lab.down(SECOND, discard=True)
    one.out("apt-get -q update -o APT::Update::Error-Mode=any")
    source = one.out("cat /etc/apt/sources.list.d/cuda-debian12-x86_64.list")
    assert one.host.repository in source


def test_what_one_host_writes_is_its_own_and_stays() -> None:
    one = Guest(lab.find(FIRST))
    one.out("echo mine > /root/mark")
    lab.down(FIRST)
    assert up(FIRST, fresh=False).out("cat /root/mark") == "mine"
    assert up(FIRST).out("cat /root/mark") == "frozen"


def test_a_layer_freezes_again_on_top_and_replaces_the_label() -> None:
    one, two = up(FIRST), up(SECOND)
    one.out("echo again > /root/mark; rm /root/gone")
    lab.freeze(FIRST, LABEL)
    assert kept() == [f"{LABEL}.1", f"{LABEL}.2"]
    assert two.out("cat /root/mark") == "frozen"
    again = up(FIRST)
    assert again.out("cat /root/mark") == "again"
    assert again.run("test -e /root/gone").returncode == 1
    lab.down(SECOND, discard=True)
    assert kept() == [f"{LABEL}.1", f"{LABEL}.2"], "the second lies on the first"
    assert lab.find(SECOND) is None


def test_a_label_without_that_base_is_refused() -> None:
    with pytest.raises(lab.LabError, match="is of debian on bookworm, not debian on trixie"):
        lab.up(lab.LabSpec(name=SECOND, suite="trixie", layer=LABEL), say=lambda _: None)
    with pytest.raises(lab.LabError, match="no layer 't-lab-none'"):
        up(SECOND, layer="t-lab-none")
    with pytest.raises(lab.LabError, match="stands with layer t-lab-layer, not None"):
        up(FIRST, layer=None, fresh=False)
    with pytest.raises(lab.LabError, match="stands on layer"):
        lab.discard_layer(LABEL)
    assert lab.find(SECOND) is None
    assert not (lab_dir() / "hosts" / SECOND).exists()
