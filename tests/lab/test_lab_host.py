"""Lab hosts really boot: PID 1, sshd, apt and reboots are real, the hardware is simulated."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from provision import lab
from provision.lab import hardware

DRIVER_PACKAGES = (
    *("nvidia-open", "nvidia-driver-cuda", "nvidia-kernel-open-dkms", "nvidia-kernel-support"),
    *("firmware-nvidia-gsp", "libcuda1", "libnvidia-ml1", "libnvidia-cfg1", "nvidia-modprobe"),
    *("libnvidia-ptxjitcompiler1", "nvidia-persistenced"),
)


class Guest:
    """A lab host and the shell into it."""

    def __init__(self, host: lab.LabHost) -> None:
        self.host = host

    def run(self, command: str, *options: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        argv = ["ssh", "-F", str(self.host.ssh_config), *options, self.host.name, command]
        return subprocess.run(
            argv, check=False, capture_output=True, text=True, timeout=60, input=stdin
        )

    def out(self, command: str) -> str:
        done = self.run(command)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def boot_id(self) -> str:
        return self.run("cat /proc/sys/kernel/random/boot_id").stdout.strip()

    def reboot(self) -> None:
        before = self.boot_id()
        self.run("systemctl reboot")
        wait_until(lambda: self.boot_id() not in ("", before))

    def install(self, driver: str) -> None:
        pinned = " ".join(f"{name}={driver}-1" for name in DRIVER_PACKAGES)
        self.out(f"DEBIAN_FRONTEND=noninteractive apt-get -qq -y install {pinned}")


def wait_until(ready: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def only_lab_repository(guest: Guest) -> None:
    """Install the keyring, and ask no other repository: these tests need none."""
    keyring = "cuda-keyring_1.1-1_all.deb"
    guest.out(f"curl -fsS -o /root/{keyring} {guest.host.repository}{keyring}")
    assert guest.out(f"sha256sum /root/{keyring}").split()[0] == guest.host.keyring_sha256
    guest.out(f"dpkg -i /root/{keyring} && rm /etc/apt/sources.list && apt-get -qq update")


@pytest.fixture(scope="module")
def bookworm() -> Iterator[Guest]:
    said: list[str] = []
    try:
        yield Guest(lab.up(lab.LabSpec(name="t-bookworm"), fresh=True, say=said.append))
    finally:
        lab.down("t-bookworm", discard=True)
    assert any("simulated" in line for line in said)


@pytest.fixture(scope="module")
def trixie() -> Iterator[Guest]:
    spec = lab.LabSpec(name="t-trixie", suite="trixie", hardware="h200-2x", memory=512 * 2**20)
    try:
        yield Guest(lab.up(spec, fresh=True, say=lambda _: None))
    finally:
        lab.down("t-trixie", discard=True)


class TestBoot:
    def test_systemd_runs_and_nothing_failed(self, bookworm: Guest) -> None:
        assert bookworm.out("systemctl is-system-running --wait") == "running"
        assert bookworm.out("cat /proc/1/comm") == "systemd"

    def test_kernel_is_the_descriptions_and_uname_the_machines(self, bookworm: Guest) -> None:
        assert bookworm.out("cat /proc/sys/kernel/osrelease") == "6.12.90-lab-amd64"
        assert bookworm.out("uname -r") == os.uname().release

    def test_devices_come_from_the_description(self, bookworm: Guest) -> None:
        assert bookworm.out("lspci -d 10de: | grep -c '3D controller'") == "8"
        assert bookworm.out("cat /sys/bus/pci/devices/0000:f5:00.0/numa_node") == "1"
        assert bookworm.out("lsmod | grep -c nouveau") == "1"

    def test_up_again_leaves_it_alone(self, bookworm: Guest) -> None:
        before = bookworm.boot_id()
        again = lab.up(lab.LabSpec(name="t-bookworm"), say=lambda _: None)
        assert (again, bookworm.boot_id()) == (bookworm.host, before)

    def test_other_settings_need_a_fresh_host(self, bookworm: Guest) -> None:
        spec = lab.LabSpec(name="t-bookworm", hardware="none")
        with pytest.raises(lab.LabError, match="hardware rtxpro6000-8x, not none"):
            lab.up(spec, say=lambda _: None)

    def test_sessions_are_counted(self, bookworm: Guest) -> None:
        before = lab.sshd_sessions("t-bookworm")
        bookworm.out("true")
        wait_until(lambda: lab.sshd_sessions("t-bookworm") == before + 1)

    def test_held_reboot_stays_down(self, bookworm: Guest) -> None:
        hold = bookworm.host.console.parent / "hold-reboot"
        before = bookworm.boot_id()
        boots = bookworm.host.console.read_text().count("ended with 133")
        hold.touch()
        bookworm.run("systemctl reboot")
        wait_until(lambda: bookworm.host.console.read_text().count("ended with 133") > boots)
        assert bookworm.boot_id() == ""
        hold.unlink()
        wait_until(lambda: bookworm.boot_id() not in ("", before))


class TestDriver:
    """In order: each test starts where the one before it ended."""

    def test_update_checks_the_signature(self, bookworm: Guest) -> None:
        only_lab_repository(bookworm)
        index = bookworm.host.console.parent / "repository/debian12/x86_64/InRelease"
        signed = index.read_text()
        strict = "apt-get -q update -o APT::Update::Error-Mode=any"
        try:
            index.write_text(signed.replace("NVIDIA CUDA", "NVIDIA CUBA"))
            refused = bookworm.run(strict)
        finally:
            index.write_text(signed)
        assert refused.returncode != 0
        assert "not valid" in refused.stderr or "BADSIG" in refused.stderr
        bookworm.out(strict)

    def test_without_reboot_the_driver_is_out_of_reach(self, bookworm: Guest) -> None:
        bookworm.out("apt-get -qq -y install linux-headers-6.12.90-lab-amd64")
        bookworm.install("590.44.01")
        assert bookworm.out("modinfo -F license nvidia") == "Dual MIT/GPL"
        assert bookworm.run("nvidia-smi").returncode == 9
        assert bookworm.run("modprobe nvidia").returncode == 1

    def test_nouveau_holds_the_cards_until_it_is_blacklisted(self, bookworm: Guest) -> None:
        bookworm.reboot()
        assert bookworm.run("nvidia-smi").returncode == 9
        bookworm.out("echo blacklist nouveau > /etc/modprobe.d/nouveau.conf; update-initramfs -u")
        bookworm.reboot()
        assert "590.44.01" in bookworm.out("nvidia-smi")
        assert bookworm.out("cat /sys/module/nvidia/version") == "590.44.01"
        assert bookworm.out("nvidia-smi -L | wc -l") == "8"

    def test_persistence_follows_the_daemon(self, bookworm: Guest) -> None:
        query = "nvidia-smi -i 0 --query-gpu=persistence_mode --format=csv,noheader"
        assert bookworm.out(query) == "Enabled"
        bookworm.out("systemctl stop nvidia-persistenced")
        assert bookworm.out(query) == "Disabled"

    def test_another_driver_mismatches_until_the_reboot(self, bookworm: Guest) -> None:
        bookworm.install("590.48.01")
        mismatch = bookworm.run("nvidia-smi")
        assert mismatch.returncode == 18
        assert "Driver/library version mismatch" in mismatch.stdout
        bookworm.reboot()
        assert "590.48.01" in bookworm.out("nvidia-smi")

    def test_a_new_kernel_without_headers_has_no_module(self, bookworm: Guest) -> None:
        bookworm.out("apt-get -qq -y install linux-image-6.12.95-lab-amd64")
        bookworm.reboot()
        assert bookworm.out("cat /proc/sys/kernel/osrelease") == "6.12.95-lab-amd64"
        assert bookworm.run("nvidia-smi").returncode == 9
        bookworm.out("apt-get -qq -y install linux-headers-6.12.95-lab-amd64")
        bookworm.out("modprobe nvidia && nvidia-smi")

    def test_toolkits_stand_side_by_side(self, bookworm: Guest) -> None:
        bookworm.out("apt-get -qq -y install cuda-toolkit-12-8 cuda-toolkit-13-1=13.1.0-1")
        assert "release 12.8" in bookworm.out("/usr/local/cuda-12.8/bin/nvcc --version")
        assert "release 13.1" in bookworm.out("/usr/local/cuda/bin/nvcc --version")


class TestTrixie:
    def test_boots_with_its_memory_limit(self, trixie: Guest) -> None:
        assert trixie.out("systemctl is-system-running --wait") == "running"
        v1 = "/sys/fs/cgroup/memory/memory.limit_in_bytes"
        limit = trixie.out(f"cat {v1} 2>/dev/null || cat /sys/fs/cgroup/memory.max")
        assert int(limit) == 512 * 2**20

    def test_the_limit_kills(self, trixie: Guest) -> None:
        assert trixie.run("python3 -c 'bytearray(2**30)'").returncode != 0
        assert trixie.out("echo alive") == "alive"

    def test_driver_needs_one_reboot_when_nouveau_is_blacklisted(self, trixie: Guest) -> None:
        only_lab_repository(trixie)
        trixie.out("apt-get -qq -y install linux-headers-6.12.90-lab-amd64")
        trixie.install("580.159.04")
        trixie.out("echo blacklist nouveau > /etc/modprobe.d/nouveau.conf")
        trixie.reboot()
        assert "NV18" in trixie.out("nvidia-smi topo -m")
        assert "<product_name>NVIDIA H200<" in trixie.out("nvidia-smi -q -x")


class TestDescription:
    @pytest.mark.parametrize(
        ("old", "new", "complaint"),
        [
            (
                "memory_mib: 97887",
                "memory_mib: much",
                "bad.yaml: model.memory_mib: Input should be",
            ),
            ("nouveau: true", "nouveaux: true", "bad.yaml: nouveaux: Extra inputs"),
            ("running: 6.12.90", "running: 6.12.91", "bad.yaml: kernels: Value error, running"),
            ("'0000:01:00.0'", "0000:01:00.0", "bad.yaml: gpus.0.slot: Input should be"),
        ],
    )
    def test_mistake_is_named_by_file_and_field(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, complaint: str
    ) -> None:
        good = (hardware.FOLDER / "gpu-1x.yaml").read_text()
        assert old in good
        (tmp_path / "bad.yaml").write_text(good.replace(old, new))
        monkeypatch.setattr(hardware, "FOLDER", tmp_path)
        with pytest.raises(lab.LabError, match=complaint):
            hardware.load("bad")

    def test_every_description_is_valid(self) -> None:
        assert {name: len(hardware.load(name).gpus) for name in hardware.names()} == {
            "gpu-1x": 1,
            "h200-2x": 2,
            "none": 0,
            "nova-1x": 1,
            "rtxpro6000-8x": 8,
            "secureboot-1x": 1,
            "secureboot-enrolled-1x": 1,
        }


class TestEnd:
    def test_a_killed_supervisor_is_cleared_away(self) -> None:
        spec = lab.LabSpec(name="t-end", hardware="none")
        try:
            host = lab.up(spec, fresh=True, say=lambda _: None)
            for pid in _processes("provision.lab.supervise", "t-end"):
                os.kill(pid, 9)
            wait_until(lambda: not any(h.running for h in lab.status() if h.name == "t-end"))
            again = lab.up(spec, say=lambda _: None)
            assert (again.running, again.port) == (True, host.port)
        finally:
            lab.down("t-end", discard=True)

    def test_down_leaves_nothing(self) -> None:
        host = lab.up(lab.LabSpec(name="t-end", hardware="none"), fresh=True, say=lambda _: None)
        assert lab.down("t-end") is True
        found = lab.find("t-end")
        assert found is not None
        assert not found.running
        assert str(host.root) not in Path("/proc/self/mountinfo").read_text()
        assert not _processes("t-end")
        assert not list(Path("/sys/fs/cgroup").glob("*/lab/t-end"))
        assert lab.down("t-end", discard=True) is True
        assert not host.console.parent.exists()
        assert lab.down("t-end") is False


def _processes(*words: str) -> list[int]:
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            argv = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        line = " ".join(argv)
        if all(word in line for word in words) and path.parent.name != str(os.getpid()):
            found.append(int(path.parent.name))
    return found
