"""The parsers of what the kernel, the firmware and systemd say about the machine."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from samples import accepted, capture

from provision import facts
from provision.remote.collectors import (
    boot,
    clock,
    cloud_init,
    disks,
    gpu_users,
    iommu,
    memory,
    reading,
    system,
    units,
    versions,
)
from provision.remote.command import Failed, Missing


def test_os_release():
    assert system.parse_os_release(capture("os-release-debian-12.txt")) == {
        "id": "debian",
        "version_id": "12",
        "codename": "bookworm",
        "name": "Debian GNU/Linux 12 (bookworm)",
    }


def test_os_release_of_sid_states_no_version():
    release = system.parse_os_release(capture("os-release-sid.txt"))
    assert (release["version_id"], release["codename"]) == ("", "")


def test_os_release_of_nothing():
    with pytest.raises(Failed, match="lacks ID and PRETTY_NAME"):
        system.parse_os_release("")


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("Python 3.11.2\n", "3.11.2"),
        ("3.14.0rc2 (main, Aug 1)", "3.14.0rc2"),
        ("3.12.3+ (x)", "3.12.3"),
    ],
)
def test_python_version(text, version):
    assert system.parse_python(text) == version


def test_python_that_says_nothing():
    with pytest.raises(Failed, match="does not state its version"):
        system.parse_python("")


def test_python_that_runs_the_probe_is_not_asked(monkeypatch):
    monkeypatch.setattr(system, "PYTHON", sys.executable)
    monkeypatch.setattr(system, "output", None)
    running = ".".join(map(str, sys.version_info[:3]))
    assert accepted("os", system.collect({})).python.version == running


def test_host_without_python(monkeypatch):
    monkeypatch.setattr(system, "PYTHON", "/none/python3")
    with pytest.raises(Failed, match="/none/python3 does not run"):
        system.collect({})


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("6.1.0-9-amd64", "6.1.0-18-amd64"),
        ("6.8.0-45-generic", "6.11.0-9-generic"),
        ("6.8~rc1-amd64", "6.8-amd64"),
        ("6.1.0-18-amd64", "6.1.0-18-amd64-unsigned"),
        ("1.0a", "1.0+"),
    ],
)
def test_version_order(older, newer):
    assert versions.key(older) < versions.key(newer)


def test_newest_kernel():
    names = ["config-9", "vmlinuz-6.1.0-9-amd64", "vmlinuz-6.1.0-18-amd64", "vmlinuz-7.0.old"]
    assert boot.newest(names) == "6.1.0-18-amd64"
    assert boot.newest(["vmlinuz-6.8.0", "vmlinuz-6.8.0-rc3"]) == "6.8.0"
    assert boot.newest(["grub"]) is None


def test_uptime():
    assert boot.parse_uptime("350.51 1293.86\n") == 350.51
    with pytest.raises(IndexError):
        boot.parse_uptime("")


def inhibitor(**fields):
    """An inhibitor's file as logind writes it."""
    base = {"WHAT": "shutdown", "MODE": "block", "UID": "0", "WHO": "backup", "WHY": "nightly"}
    lines = [f"{name}={value}\n" for name, value in {**base, **fields}.items()]
    return "".join(["# This is private data. Do not parse.\n", *lines])


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "backup (nightly)"),
        ({"WHAT": "shutdown:sleep"}, "backup (nightly)"),
        ({"WHAT": "sleep:handle-lid-switch"}, None),
        ({"WHAT": "idle"}, None),
        ({"MODE": "delay"}, None),
        ({"WHO": "", "WHY": "a=b"}, " (a=b)"),
        ({"WHO": r"Bob\'s \"b\303\244ckup\" $x"}, """Bob's "bäckup" $x (nightly)"""),
        ({"WHY": r"a\\b\ttwo"}, "backup (a\\b\ttwo)"),
        ({"WHY": r'"of \\\"b\\303\\244ckup\\\" \$x"'}, """backup (of "bäckup" $x)"""),
        ({"WHY": "\\"}, "backup (?)"),
    ],
)
def test_an_inhibitor_that_forbids_a_shutdown(fields, expected):
    assert boot.parse_inhibitor(inhibitor(**fields)) == expected


def test_an_inhibitor_that_says_nothing():
    assert boot.parse_inhibitor("") is None
    assert boot.parse_inhibitor("WHAT=shutdown\nMODE=block\n") == "? (?)"


def test_the_pipe_beside_an_inhibitor_is_never_read(tmp_path):
    (tmp_path / "1").write_text(inhibitor(MODE="delay"))
    (tmp_path / "2").write_text(inhibitor())
    os.mkfifo(tmp_path / "2.ref")
    holder = os.open(tmp_path / "2.ref", os.O_RDWR)
    reader = threading.Thread(target=lambda: found.extend(boot.inhibitors(tmp_path)), daemon=True)
    found = []
    reader.start()
    reader.join(10)
    os.close(holder)
    assert found == ["backup (nightly)"]
    assert boot.inhibitors(tmp_path / "none") == []


CGROUPS = {
    "a service, v2": ("0::/system.slice/ollama.service\n", "ollama.service"),
    "a session, v2": ("0::/user.slice/user-0.slice/session-3.scope\n", "session-3.scope"),
    "a service, v1": (
        "12:memory:/\n5:pids:/a.service\n1:name=systemd:/system.slice/slurmd.service\n",
        "slurmd.service",
    ),
    "a service, hybrid": (
        "1:name=systemd:/system.slice/ssh.service\n0::/system.slice/ssh.service\n",
        "ssh.service",
    ),
    "a sub-group of a service": ("0::/system.slice/a@1.service/work/3\n", "a@1.service"),
    "a user's own service": (
        "0::/user.slice/user-7.slice/user@7.service/app.slice/jupyter.service\n",
        "user@7.service",
    ),
    "Docker with systemd's groups": ("0::/system.slice/docker-9f2c.scope\n", "docker-9f2c.scope"),
    "Docker with groups of its own": ("0::/docker/9f2c\n", None),
    "a service in a container": (
        "0::/machine.slice/systemd-nspawn@one.service/payload/system.slice/ssh.service\n",
        "systemd-nspawn@one.service",
    ),
    "a host that is a container": (capture("cgroup-hybrid-container.txt"), "ssh.service"),
    "no unit at all": ("0::/\n", None),
    "a slice alone": ("0::/system.slice\n", None),
    "nothing": ("", None),
}


@pytest.mark.parametrize("case", CGROUPS)
def test_the_unit_of_a_process(case):
    text, unit = CGROUPS[case]
    assert gpu_users.parse_unit(text) == unit


def test_who_has_a_gpu_open_the_probe_s_own_nvidia_smi_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_users, "DEVICE", f"{tmp_path}/nvidia")
    assert gpu_users.collect({}) == []
    (tmp_path / "nvidia0").touch()
    with (tmp_path / "nvidia0").open() as device:
        child = subprocess.Popen(["sleep", "60"], stdin=device)
        users = accepted("gpu_users", gpu_users.collect({}))
        child.kill()
        child.wait()
    name = Path("/proc/self/comm").read_text().strip()
    assert [(user.pid, user.name) for user in users] == [(os.getpid(), name)]


def test_iommu(tmp_path):
    assert accepted("iommu", iommu.groups(tmp_path)) == facts.Iommu(groups=0)
    (tmp_path / "0").mkdir()
    assert accepted("iommu", iommu.groups(tmp_path)) == facts.Iommu(groups=1)
    with pytest.raises(Missing):
        iommu.groups(tmp_path / "none")


def test_meminfo():
    sizes = memory.parse_meminfo(capture("meminfo.txt"))
    assert sizes == {"total": 263998500 * 1024, "available": 263420684 * 1024}
    with pytest.raises(Failed, match="MemAvailable"):
        memory.parse_meminfo("MemTotal:       1 kB\n")


def test_limit_of_an_ancestor_in_v2():
    paths = memory.limit_files(
        "0::/user.slice/user-0.slice/session-1.scope\n", capture("mountinfo-v2.txt")
    )
    assert paths == [
        "/sys/fs/cgroup/user.slice/user-0.slice/session-1.scope/memory.max",
        "/sys/fs/cgroup/user.slice/user-0.slice/memory.max",
        "/sys/fs/cgroup/user.slice/memory.max",
        "/sys/fs/cgroup/memory.max",
    ]
    texts = {paths[0]: "max", paths[1]: "8589934592", paths[2]: "17179869184"}
    assert memory.least(paths, texts.get, 2**40) == 8589934592


def test_limit_in_a_container_with_v1():
    paths = memory.limit_files(
        capture("cgroup-hybrid-container.txt"), capture("mountinfo-hybrid-container.txt")
    )
    top = "/sys/fs/cgroup/memory"
    assert [path for path in paths if path.startswith(top)] == [
        f"{top}/system.slice/ssh.service/memory.limit_in_bytes",
        f"{top}/system.slice/memory.limit_in_bytes",
        f"{top}/memory.limit_in_bytes",
    ]
    texts = {paths[0]: "9223372036854771712", paths[2]: "4294967296"}
    assert memory.least(paths, texts.get, 2**40) == 4294967296


def test_the_worst_pressure_of_the_machine_and_the_groups_above():
    paths = memory.pressure_files("0::/build.slice/b.service\n", capture("mountinfo-v2.txt"))
    assert paths == [
        "/sys/fs/cgroup/build.slice/b.service/memory.pressure",
        "/sys/fs/cgroup/build.slice/memory.pressure",
        "/sys/fs/cgroup/memory.pressure",
    ]
    texts = {
        paths[0]: "some avg10=91.00 avg60=9.00 avg300=2.20 total=9\n"
        "full avg10=12.34 avg60=4.00 avg300=1.00 total=5\n",
        paths[1]: "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
        "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
    }
    assert memory.stalled(paths, texts.get) == 12.34
    assert memory.stalled(paths[1:], texts.get) == 0.0
    v1 = capture("cgroup-hybrid-container.txt"), capture("mountinfo-hybrid-container.txt")
    assert not any("/memory/" in path for path in memory.pressure_files(*v1))


@pytest.mark.parametrize("path", ["/../elsewhere", "/elsewhere"])
def test_group_outside_the_mount_is_not_invented(path):
    mountinfo = capture("mountinfo-hybrid-container.txt")
    assert memory.limit_files(f"4:memory:{path}\n", mountinfo) == [
        "/sys/fs/cgroup/memory/memory.limit_in_bytes"
    ]


def test_no_limit():
    assert memory.least(["a", "b"], {"a": "max", "b": "9223372036854771712"}.get, 2**40) is None
    assert memory.least([], {}.get, 2**40) is None
    with pytest.raises(ValueError, match="rubbish"):
        memory.least(["a"], {"a": "rubbish"}.get, 2**40)


@pytest.fixture
def cloud(tmp_path, monkeypatch):
    """cloud-init's folder of this boot, on a host that has cloud-init."""
    program = tmp_path / "cloud-init"
    program.touch(mode=0o755)
    monkeypatch.setattr(cloud_init, "PATH", str(tmp_path))
    monkeypatch.setattr(cloud_init, "RUN", tmp_path / "run")
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("files", "running"),
    [
        (["enabled"], True),
        (["enabled", "status.json"], True),
        (["enabled", "status.json", "result.json"], False),
        (["disabled"], False),
        ([], False),
    ],
)
def test_cloud_init(cloud, files, running):
    for name in files:
        (cloud / name).touch()
    assert accepted("cloud_init", cloud_init.collect({})).running is running


def test_cloud_init_s_link_to_a_result_that_is_not_written_yet(cloud):
    (cloud / "enabled").touch()
    (cloud / "result.json").symlink_to("../var/lib/cloud/data/result.json")
    assert accepted("cloud_init", cloud_init.collect({})).running


def test_no_cloud_init(cloud, monkeypatch):
    monkeypatch.setattr(cloud_init, "PATH", str(cloud))
    with pytest.raises(Missing, match="no cloud-init"):
        cloud_init.collect({})


def test_disks(tmp_path):
    value = accepted("disks", disks.collect({"mounts": ["/", str(tmp_path / "none")]}))
    assert list(value) == ["/"]
    assert 0 < value["/"].free <= value["/"].total


def test_paths_of_one_file_system_are_of_one_device(tmp_path):
    (tmp_path / "a").mkdir()
    mounts = [str(tmp_path), str(tmp_path / "a"), "/proc"]
    value = accepted("disks", disks.collect({"mounts": mounts}))
    here, below, other = (value[mount].device for mount in mounts)
    assert here == below != other


@pytest.mark.parametrize(("state", "expected"), [(0, True), (5, False), (-1, None)])
def test_clock(tmp_path, monkeypatch, state, expected):
    monkeypatch.setattr(clock, "TIMESYNCD", tmp_path / "none")
    monkeypatch.setattr(clock, "_adjtimex", lambda: state)
    assert accepted("clock", clock.collect({})).synchronised is expected


def test_clock_that_timesyncd_has_set(tmp_path, monkeypatch):
    monkeypatch.setattr(clock, "TIMESYNCD", tmp_path)
    assert clock.collect({})["synchronised"] is True


def test_units():
    names = ["sshd", "nvidia-fabricmanager", "run-user.mount"]
    value = accepted("units", units.parse_units(names, capture("units-alias-and-missing.txt")))
    assert value == {
        "sshd": facts.Unit(active="active", enabled="enabled"),
        "nvidia-fabricmanager": None,
        "run-user.mount": facts.Unit(active="active", enabled=""),
    }


def test_units_that_systemctl_leaves_out():
    with pytest.raises(Failed, match="3 of 2 units"):
        units.parse_units(["a", "b"], capture("units-alias-and-missing.txt"))
    with pytest.raises(Failed, match="no ActiveState and no UnitFileState of a"):
        units.parse_units(["a"], "Id=a.service\nLoadState=loaded\n")


def test_what_may_not_be_read_is_not_absent(tmp_path):
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    for look in (reading.read, reading.exists, reading.names):
        with pytest.raises(OSError, match="symbolic links"):
            look(loop)
    assert reading.read(tmp_path / "none") is None
    assert reading.exists(tmp_path / "none") is False
    assert reading.names(tmp_path / "none") == []
