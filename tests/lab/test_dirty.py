"""Hosts that are not bare reach the same end; what can't be mended is refused, untouched."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from provision import checks, engine, inventory, lab
from provision.errors import ProvisionError
from provision.target import Target, lab_spec, target
from tests.lab.hosts import MODEL, host_entry, on_host

ROOT = Path(__file__).parents[2]

WITHOUT_PINS = "apt-get -qq -y --allow-downgrades -o Dir::Etc::PreferencesParts=/nowhere"
PARTS = (
    *("nvidia-open", "nvidia-driver-cuda", "nvidia-kernel-open-dkms", "nvidia-kernel-support"),
    *("firmware-nvidia-gsp", "libcuda1", "libnvidia-ml1", "libnvidia-cfg1", "nvidia-modprobe"),
    *("libnvidia-ptxjitcompiler1", "nvidia-persistenced"),
)
REMOVE_DRIVER = f"apt-get -qq -y remove {' '.join(PARTS)}"

DIRT = {
    "driver-580-held-and-vendor-pinned": f"""
        {WITHOUT_PINS} install {" ".join(f"{part}=580.159.04-1" for part in PARTS)}
        apt-mark hold libcuda1 nvidia-open
        {WITHOUT_PINS} install nvidia-driver-pinning-580.159.04
        ln -sfn /opt/gone /usr/local/cuda
    """,
    "cuda-595-and-a-second-list": f"""
        {REMOVE_DRIVER}
        {WITHOUT_PINS} install cuda
        rm /etc/apt/preferences.d/firstlight.pref
        sed 's/signed-by=[^]]*/trusted=yes/' /etc/apt/sources.list.d/cuda-*.list \\
            > /etc/apt/sources.list.d/by-hand.list
        sed 's#signed-by=[^]]*#signed-by=/usr/share/keyrings/debian-archive-keyring.gpg#' \\
            /etc/apt/sources.list.d/cuda-*.list > /etc/apt/sources.list.d/another-key.list
    """,
    "archive-driver": f"""
        {REMOVE_DRIVER}
        rm /etc/apt/preferences.d/firstlight.pref /etc/apt/sources.list.d/cuda-*.list
        apt-get -qq update
        {WITHOUT_PINS} install nvidia-driver nvidia-smi
    """,
    "nouveau-back-and-environments-in-the-way": """
        rm /etc/modprobe.d/firstlight-nouveau.conf
        mkdir -p /opt/conda/bin && ln -s /bin/false /opt/conda/bin/python3
        echo PATH=/opt/conda/bin:/usr/sbin:/usr/bin:/sbin:/bin >> /etc/environment
        printf '#!/bin/sh\\nexit 1\\n' > /usr/local/bin/python && chmod +x /usr/local/bin/python
        rm /opt/firstlight/environments/main/current
        cd /opt/firstlight
        uv/*/uv venv -q --python /usr/bin/python3 environments/main/venv
        systemctl reboot
    """,
}
REFUSED = {
    "runfile": ("/usr/lib/lab/nvidia-installer 575.51.03", {}, "nvidia-uninstall"),
    "secure-boot": ("true", {"hardware": "secureboot-1x"}, "Secure Boot is on"),
    "nvcc-12-8-on-debian-13": (
        "true",
        {"suite": "trixie"},
        "nvcc 12.8 reads the headers of a glibc below 2.41",
    ),
}


@pytest.fixture(scope="module")
def mended(finished):
    """Every dirty host after provisioning: name → target and what was seen last."""
    hosts: dict[str, tuple[Target, engine.Look]] = {}
    try:
        for name, script in DIRT.items():
            host = host_entry(f"t-{name}"[:60].rstrip("-"), layer=finished)
            lab.up(lab_spec(host), fresh=True, say=lambda _: None)
            there = target(host)
            if "archive" in name:
                lab.add_archive(host.name)
            on_host(there, script)
            hosts[name] = there, engine.provision(there, lambda _: None)
        yield hosts
    finally:
        for name in DIRT:
            lab.down(f"t-{name}"[:60].rstrip("-"), discard=True)


@pytest.mark.parametrize("name", DIRT)
def test_a_dirty_host_reaches_the_same_end(mended, name):
    there, seen = mended[name]
    assert seen.plan.empty
    rows = checks.check(there.want, seen.facts, seen.plan)
    assert [f"{row.id} {row.subject}: {row.observed}" for row in rows if not row.ok] == []


@pytest.mark.parametrize("name", DIRT)
def test_toolkits_and_keyring_survive(mended, name):
    _, seen = mended[name]
    packages = seen.facts.dpkg.packages
    assert {"cuda-toolkit-12-8", "cuda-toolkit-13-1", "cuda-keyring"} <= packages.keys()
    assert not packages["cuda-toolkit-13-1"].auto


def test_what_was_held_is_held_again(mended):
    _, seen = mended["driver-580-held-and-vendor-pinned"]
    assert [n for n, p in seen.facts.dpkg.packages.items() if p.hold] == ["libcuda1", "nvidia-open"]


def test_infra_tests_are_green_on_all_of_them(mended, tmp_path):
    lines = [
        f"  {there.host.name}: {{lab: {{layer: {there.host.lab.layer}}}, stack: lab, "
        f"gpus: {{count: 8, model: {MODEL}}}}}"
        for there, _ in mended.values()
    ]
    names = [there.host.name for there, _ in mended.values()]
    file = tmp_path / "inventory.yaml"
    file.write_text("\n".join([f"default: {names[0]}", "hosts:", *lines, ""]))
    options = [option for name in names for option in ("--host", name)]
    said = subprocess.run(
        [sys.executable, "-m", "pytest", "tests/infra", "-q", *options],
        cwd=ROOT,
        env={**os.environ, inventory.VARIABLE: str(file)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stdout[-3000:]


def tree(upper: Path) -> dict[str, str]:
    """Every file that the host wrote over its base, but for logs: path → type, mode, content."""
    found = {}
    for path in sorted(upper.rglob("*")):
        name = str(path.relative_to(upper))
        if name.startswith(
            (
                "var/log",
                "usr/lib/lab/guest/__pycache__",
                "var/cache/apt/pkgcache.bin",
                "var/cache/apt/srcpkgcache.bin",
                "var/lib/systemd",
                "root/.cache",
                "var/lib/private",
            )
        ):
            continue
        stat = path.lstat()
        content = str(path.readlink()) if path.is_symlink() else ""
        if path.is_file() and not path.is_symlink():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        found[name] = f"{stat.st_mode:o} {stat.st_uid} {content}"
    return found


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_mended_is_refused_and_untouched(name):
    script, settings, reason = REFUSED[name]
    host = host_entry(f"t-no-{name}", **settings)
    try:
        there = target(host, start=lambda _: None)
        on_host(there, script)
        upper = lab.find(host.name).root.parent / "upper"
        before = tree(upper)
        with pytest.raises(ProvisionError, match=reason) as refused:
            engine.provision(there, lambda _: None)
        assert refused.value.hint
        assert tree(upper) == before
    finally:
        lab.down(host.name, discard=True)


def test_nova_core_is_driven_out():
    """Its own host: what a kernel loads by itself is part of the (simulated) hardware."""
    host = host_entry("t-nova", hardware="nova-1x").model_copy(update={"gpus": None})
    try:
        there = target(host, start=lambda _: None)
        before = engine.look(there)
        assert before.facts.kernel.loaded["nova_core"] is not None
        done = engine.provision(there, lambda _: None)
        assert done.plan.empty
        assert done.facts.kernel.loaded["nova_core"] is None
        assert done.facts.driver.loaded == there.want.stack.system.driver.version
    finally:
        lab.down(host.name, discard=True)
