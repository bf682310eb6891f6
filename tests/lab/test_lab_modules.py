"""What keeps a module out: nova, Secure Boot, a build that fails; and one from a .run file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from provision import lab
from tests.lab.test_lab_host import Guest, only_lab_repository

HEADERS = "apt-get -qq -y install linux-headers-6.12.90-lab-amd64"
BLACKLIST = "echo 'blacklist nouveau\nblacklist nova_core' > /etc/modprobe.d/none.conf"


def host(name: str, hardware: str, suite: str = "bookworm") -> Iterator[Guest]:
    try:
        spec = lab.LabSpec(name=name, hardware=hardware, suite=suite)
        guest = Guest(lab.up(spec, fresh=True, say=lambda _: None))
        only_lab_repository(guest)
        guest.out(f"{HEADERS}; {BLACKLIST}")
        yield guest
    finally:
        lab.down(name, discard=True)


@pytest.fixture(scope="module")
def nova() -> Iterator[Guest]:
    yield from host("t-lab-nova", "nova-1x")


@pytest.fixture(scope="module")
def strict() -> Iterator[Guest]:
    yield from host("t-lab-strict", "secureboot-1x")


@pytest.fixture(scope="module")
def trusted() -> Iterator[Guest]:
    yield from host("t-lab-trusted", "secureboot-enrolled-1x", "trixie")


class TestInstaller:
    """In order, on the host with nova."""

    def test_nova_took_the_card_at_boot(self, nova: Guest) -> None:
        assert "nova_core" in nova.out("lsmod")
        assert nova.out("lspci -d 10de: -k | grep 'in use'").endswith("nova_core")
        assert "nova-core" in nova.out("modinfo -F filename nova_core; lsinitramfs /boot/initrd*")

    def test_a_failing_build_says_where_its_log_lies(self, nova: Guest) -> None:
        nova.out("echo \"gcc: error: unrecognized command-line option '-f'\" > /etc/lab/dkms-fails")
        failed = nova.run("DEBIAN_FRONTEND=noninteractive apt-get -qq -y install nvidia-open")
        assert failed.returncode == 100
        log = "/var/lib/dkms/nvidia/595.58.03/build/make.log"
        assert "Bad return status for module build on kernel: 6.12.90-lab-amd64" in failed.stdout
        assert log in failed.stdout
        assert "unrecognized command-line option '-f'" in nova.out(f"cat {log}")
        assert nova.out("dkms status") == "nvidia/595.58.03: added"
        assert "half-configured" in nova.out("dpkg -s nvidia-kernel-open-dkms")
        nova.out("rm /etc/lab/dkms-fails; dpkg --configure -a")
        assert nova.out("dkms status").endswith("installed")
        nova.out("apt-get -qq -y purge nvidia-open nvidia-driver-cuda nvidia-kernel-open-dkms")
        nova.out("apt-get -qq -y autoremove --purge")

    def test_a_run_file_leaves_what_no_package_owns(self, nova: Guest) -> None:
        nova.out("/usr/lib/lab/nvidia-installer 580.95.05")
        files = "/usr/bin/nvidia-uninstall /usr/bin/nvidia-smi /usr/bin/nvidia-installer"
        library = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.95.05"
        module = "/lib/modules/6.12.90-lab-amd64/kernel/drivers/video/nvidia.ko"
        for path in (*files.split(), library, module):
            assert "no path found" in nova.run(f"test -e {path} && dpkg -S {path}").stderr
        log = nova.out("cat /var/log/nvidia-installer.log")
        assert log.startswith("nvidia-installer log file '/var/log/nvidia-installer.log'")
        assert "580.95.05" in log
        assert nova.run("nvidia-smi").returncode == 9

    def test_it_loads_at_the_next_boot_and_can_be_removed(self, nova: Guest) -> None:
        nova.reboot()
        assert "580.95.05" in nova.out("nvidia-smi")
        assert nova.out("modinfo -F license nvidia") == "Dual MIT/GPL"
        nova.out("nvidia-uninstall")
        assert nova.run("test -e /usr/bin/nvidia-smi -o -L /usr/bin/nvidia-uninstall").returncode
        assert nova.run("modinfo nvidia").returncode == 1


class TestSecureBoot:
    def test_without_an_enrolled_key_the_module_is_refused(self, strict: Guest) -> None:
        assert strict.out("mokutil --sb-state") == "SecureBoot enabled"
        assert strict.out("mokutil --list-enrolled") == ""
        strict.install("590.48.01")
        assert strict.out("mokutil --test-key /var/lib/dkms/mok.pub").endswith("not enrolled")
        strict.reboot()
        assert strict.out("modinfo -F signer nvidia") == "DKMS module signing key"
        refused = strict.run("modprobe nvidia")
        assert refused.returncode == 1
        assert "could not insert 'nvidia': Key was rejected by service" in refused.stderr
        assert "nvidia" not in strict.out("lsmod")
        assert strict.run("nvidia-smi").returncode == 9

    def test_with_an_enrolled_key_it_loads(self, trusted: Guest) -> None:
        trusted.install("590.48.01")
        known = trusted.run("mokutil --test-key /var/lib/dkms/mok.pub")
        assert known.stdout.strip().endswith("already enrolled")
        assert "DKMS module signing key" in trusted.out("mokutil --list-enrolled")
        trusted.reboot()
        assert "590.48.01" in trusted.out("nvidia-smi")

    def test_a_run_files_module_is_not_signed(self, trusted: Guest) -> None:
        trusted.out("apt-get -qq -y purge nvidia-open nvidia-kernel-open-dkms nvidia-driver-cuda")
        trusted.out("/usr/lib/lab/nvidia-installer 590.48.01")
        trusted.reboot()
        assert "rejected by service" in trusted.run("modprobe nvidia").stderr
