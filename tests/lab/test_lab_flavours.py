"""Debian dressed as Ubuntu, and the distributions' own archives beside NVIDIA's repository."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from provision import lab
from provision.lab import archive, flavours, hardware
from provision.lab.packages import every_package
from provision.stack import load
from tests.lab.test_lab_host import Guest

QUIET = "DEBIAN_FRONTEND=noninteractive apt-get -qq -y"
BLACKLIST = "echo blacklist nouveau > /etc/modprobe.d/nouveau.conf"


def host(spec: lab.LabSpec) -> Iterator[Guest]:
    try:
        guest = Guest(lab.up(spec, fresh=True, say=lambda _: None))
        guest.out("rm /etc/apt/sources.list")
        lab.add_archive(spec.name)
        guest.out(f"{BLACKLIST}; apt-get -qq update -o APT::Update::Error-Mode=any")
        yield guest
    finally:
        lab.down(spec.name, discard=True)


@pytest.fixture(scope="module")
def ubuntu() -> Iterator[Guest]:
    spec = lab.LabSpec(name="t-lab-ubuntu", flavour="ubuntu2404", hardware="gpu-1x")
    yield from host(spec)


@pytest.fixture(scope="module")
def debian() -> Iterator[Guest]:
    yield from host(lab.LabSpec(name="t-lab-debian", hardware="gpu-1x"))


def installed(guest: Guest, *patterns: str) -> dict[str, str]:
    wanted = " ".join(f"'{pattern}'" for pattern in patterns)
    query = "dpkg-query -W -f '${db:Status-Abbrev} ${Package} ${Version}\n'"
    rows = (line.split() for line in guest.run(f"{query} {wanted}").stdout.splitlines())
    return {row[1]: row[2] for row in rows if row[0] == "ii"}


class TestUbuntu:
    """In order: from the archive's driver to NVIDIA's."""

    def test_it_says_ubuntu_and_owns_up(self, ubuntu: Guest) -> None:
        release = ubuntu.out("cat /etc/os-release")
        assert 'PRETTY_NAME="Ubuntu 24.04.3 LTS (lab flavour of Debian)"' in release
        assert "ID=ubuntu\n" in release
        assert ubuntu.host.repository.endswith("/ubuntu2404/x86_64/")
        assert ubuntu.out("cat /proc/sys/kernel/osrelease") == "6.8.0-90-generic"

    def test_the_archive_has_the_branch_in_its_names(self, ubuntu: Guest) -> None:
        assert "release o=Ubuntu,a=noble" in ubuntu.out("apt-cache policy")
        ubuntu.out(f"{QUIET} install linux-headers-6.8.0-90-generic nvidia-driver-580-open")
        ubuntu.reboot()
        assert "580.95.05" in ubuntu.out("nvidia-smi")
        assert ubuntu.out("test -e /var/lib/shim-signed/mok/MOK.der; echo $?") == "0"
        found = installed(ubuntu, "*nvidia*")
        assert found["libnvidia-compute-580"] == "580.95.05-0ubuntu0.24.04.1"
        assert "nvidia-firmware-580-580.95.05" in found

    def test_nvidias_packages_replace_the_branch(self, ubuntu: Guest) -> None:
        url = f"{ubuntu.host.repository}cuda-keyring_1.1-1_all.deb"
        ubuntu.out(f"curl -fsS -o /root/k.deb {url} && dpkg -i /root/k.deb && apt-get -qq update")
        stack = load("lab").system.driver
        pinned = " ".join(stack.ubuntu.pinned)
        pin = f"Package: {pinned}\\nPin: version 590.48.01*\\nPin-Priority: 1001\\n"
        ubuntu.out(f"printf '{pin}' > /etc/apt/preferences.d/test.pref")
        ubuntu.out(f"{QUIET} install nvidia-open nvidia-persistenced")
        found = installed(ubuntu, "*nvidia*")
        assert not [name for name in found if "580" in name and "firmware" not in name]
        assert {
            found[name] for name in ("nvidia-open", "libnvidia-compute", "nvidia-dkms-open")
        } == {"590.48.01-0ubuntu1"}
        assert ubuntu.run("nvidia-smi").returncode == 18
        ubuntu.reboot()
        assert "590.48.01" in ubuntu.out("nvidia-smi")
        assert ubuntu.out("systemctl is-active nvidia-persistenced") == "active"

    @pytest.mark.parametrize("distribution", sorted(flavours.UBUNTU))
    def test_every_package_that_the_stack_pins_is_offered(self, distribution: str) -> None:
        offered = {
            (package.name, package.version)
            for package in every_package(distribution, hardware.every_kernel())
        }
        driver = load("lab").system.driver
        for name in {*driver.ubuntu.pinned, *driver.ubuntu.packages}:
            assert (name, f"{driver.version}{driver.ubuntu.revision}") in offered
        assert ("nvidia-open", "595.58.03-1ubuntu1") in offered
        assert ("nvidia-driver-pinning-590.48.01", "1") in offered


class TestDebian:
    """In order: from the archive's driver to NVIDIA's."""

    def test_the_archives_driver_runs(self, debian: Guest) -> None:
        assert "release o=Debian,a=oldstable,n=bookworm,l=Debian" in debian.out("apt-cache policy")
        debian.out(f"{QUIET} install linux-headers-6.12.90-lab-amd64 nvidia-driver")
        assert debian.out("dkms status").startswith("nvidia-current/535.247.01, 6.12.90-lab-amd64")
        debian.reboot()
        assert "nvidia" in debian.out("lsmod")
        assert debian.out("modinfo -F version nvidia-current") == "535.247.01"
        assert "No devices were found" in debian.run("nvidia-smi").stdout, "Blackwell needs open"

    def test_names_are_shared_and_nvidias_are_newer(self, debian: Guest) -> None:
        url = f"{debian.host.repository}cuda-keyring_1.1-1_all.deb"
        debian.out(f"curl -fsS -o /root/k.deb {url} && dpkg -i /root/k.deb && apt-get -qq update")
        assert installed(debian, "libnvidia-ml1")["libnvidia-ml1"] == "535.247.01-1~deb12u1"
        debian.out(f"{QUIET} install nvidia-open")
        found = installed(debian, "*nvidia*", "libcuda1")
        assert found["libnvidia-ml1"] == "595.58.03-1"
        assert not {"nvidia-driver", "nvidia-smi", "nvidia-kernel-dkms"} & set(found)
        debian.reboot()
        assert "595.58.03" in debian.out("nvidia-smi")

    @pytest.mark.parametrize("distribution", flavours.distributions())
    def test_every_archive_names_its_origin(self, distribution: str) -> None:
        origin = "Ubuntu" if distribution in flavours.UBUNTU else "Debian"
        assert archive.about(distribution).startswith(f"Origin: {origin}\nLabel: {origin}\n")
        driver = archive.DRIVERS[distribution]
        assert any(p.version == driver.deb for p in archive.every_package(distribution))


def test_an_unknown_flavour_is_named() -> None:
    spec = lab.LabSpec(name="t-lab-none", flavour="ubuntu2004")
    with pytest.raises(lab.LabError, match="no lab host of flavour 'ubuntu2004'"):
        lab.up(spec, say=lambda _: None)
