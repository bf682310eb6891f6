"""How the right module comes into the kernel: by a reload where that is possible, or a restart."""

import pytest
from samples import DRIVER, KERNEL, TIMEOUT, planned, refused

from provision.plan import Reboot
from provision.resources import persistence, reboot, reload

OTHER = {"driver": {"loaded": "1.2"}}
"""The finished host with another module in its kernel."""


def words(change):
    """The commands of a change."""
    return [" ".join(getattr(action, "argv", ("restart",))) for action in change.actions]


def used(*units):
    """GPUs that a process of each unit uses."""
    users = [{"pid": pid, "name": f"p{pid}", "unit": unit} for pid, unit in enumerate(units, 1)]
    return {"gpu_users": users}


# --- a reload ----------------------------------------------------------------------------------

STOP, START = (f"systemctl {word} {persistence.UNIT}" for word in ("stop", "start"))
UNLOAD, LOAD = "modprobe -r nvidia_uvm nvidia", "modprobe -a nvidia nvidia_uvm"


def loaded(*names):
    every = dict.fromkeys(reload.MODULES)
    return {"kernel": {"loaded": every | dict.fromkeys(names, DRIVER)}}


@pytest.mark.parametrize(
    ("modules", "commands"),
    [
        (("nvidia", "nvidia_uvm"), [UNLOAD, LOAD]),
        (("nvidia",), ["modprobe -r nvidia", LOAD]),
        (
            reload.MODULES,
            [
                "modprobe -r nvidia_peermem nvidia_drm nvidia_modeset nvidia_uvm nvidia",
                "modprobe -a nvidia nvidia_uvm nvidia_modeset nvidia_drm nvidia_peermem",
            ],
        ),
        ((), [LOAD]),
    ],
)
def test_modules_go_before_those_they_need_and_come_back_after_them(modules, commands):
    (change,) = planned(reload, OTHER, loaded(*modules))
    assert words(change) == [STOP, *commands, START]
    assert planned(reload, OTHER, loaded(*modules), change.makes) == []
    assert planned(reboot, OTHER, loaded(*modules), change.makes) == []


@pytest.mark.parametrize(
    "unit", [None, {"active": "inactive", "enabled": "enabled"}, {"active": "failed"}]
)
def test_a_daemon_that_does_not_run_is_neither_stopped_nor_started(unit):
    (change,) = planned(
        reload, OTHER, loaded("nvidia", "nvidia_uvm"), {"units": {persistence.UNIT: unit}}
    )
    assert words(change) == [UNLOAD, LOAD]


def test_the_daemon_that_holds_the_gpus_is_no_reason_to_restart():
    assert planned(reload, OTHER, used(persistence.UNIT)) != []


@pytest.mark.parametrize(
    "promise",
    [
        {"kernel": {"loaded": {"nouveau": ""}}},
        {"kernel": {"loaded": {"nova_core": ""}}},
        {"journal": {"failed": ["nouveau:x", "reload:nvidia"]}},
        {"kernel": {"available": {KERNEL: None}}},
        {"kernel": {"available": {KERNEL: {"version": "1.2", "license": "Dual MIT/GPL"}}}},
        {"kernel": {"available": {KERNEL: {"version": DRIVER, "license": "NVIDIA"}}}},
        {"boot": {"kernel": "5.0"}},
        used("ollama.service"),
        used(persistence.UNIT, "session-1.scope"),
        used(None),
    ],
    ids=[
        *("nouveau", "nova_core", "failed before", "no module", "another version"),
        *("another flavour", "a kernel without module", "a service", "a session", "no unit"),
    ],
)
def test_where_a_reload_is_not_possible_none_is_tried(promise):
    assert planned(reload, OTHER, promise) == []


def test_another_change_that_failed_is_no_reason_to_restart():
    assert planned(reload, OTHER, {"journal": {"failed": ["apt_index:index"]}}) != []


@pytest.mark.parametrize("name", ["gpu_users", "units", "kernel", "boot"])
def test_a_reload_needs_to_know(name):
    assert TIMEOUT["reason"] in str(refused(reload, OTHER, **{name: TIMEOUT}))


def test_a_journal_that_can_t_be_read_is_no_reason_to_restart():
    assert planned(reload, OTHER, journal=TIMEOUT) != []


# --- a restart ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("promise", "before"),
    [
        ({"driver": {"loaded": None, "flavour": None}}, "no nvidia module loaded"),
        ({"driver": {"loaded": "1.2"}}, "module 1.2 (open) loaded"),
        ({"driver": {"flavour": "proprietary"}}, f"module {DRIVER} (proprietary) loaded"),
        ({"kernel": {"loaded": {"nouveau": ""}}}, "nouveau is loaded"),
        (
            {"kernel": {"loaded": {"nova_core": ""}}, "driver": {"loaded": None}},
            "nova_core is loaded; no nvidia module loaded",
        ),
    ],
)
def test_a_host_restarts_only_for_its_module(promise, before):
    (change,) = planned(reboot, promise)
    assert (change.before, change.actions) == (before, (Reboot(),))
    assert planned(reboot, promise, change.makes) == []


@pytest.mark.parametrize("module", [None, {"version": "1.2", "license": "Dual MIT/GPL"}])
def test_a_host_never_restarts_into_a_kernel_without_the_module(module):
    refusal = refused(
        reboot,
        {
            "driver": {"loaded": None},
            "boot": {"next_kernel": "9.9"},
            "kernel": {"available": {"9.9": module}},
        },
    )
    assert f"kernel 9.9, which the next boot takes, has no nvidia module {DRIVER}" in str(refusal)
    assert "dkms status" in refusal.hint


@pytest.mark.parametrize(
    ("units", "stopped"),
    [
        (["a.service"], ["systemctl stop -- a.service"]),
        (
            ["b.service", "a.service", "b.service"],
            ["systemctl stop -- b.service", "systemctl stop -- a.service"],
        ),
        (["session-1.scope"], []),
        ([None], []),
        ([persistence.UNIT], []),
    ],
)
def test_services_on_the_gpus_are_stopped_before_the_restart(units, stopped):
    (change,) = planned(reboot, OTHER, used(*units))
    assert words(change) == [*stopped, "restart"]
    assert change.reboots
    assert planned(reload, OTHER, used(*units), change.makes) == []


def test_who_uses_the_gpus_is_named():
    (change,) = planned(reboot, OTHER, used("a.service", persistence.UNIT, None))
    assert change.before == "module 1.2 (open) loaded; the GPUs are used by p1 (pid 1), p3 (pid 3)"


def test_nobody_who_forbids_a_restart_is_passed_over():
    refusal = refused(reboot, OTHER, {"boot": {"inhibitors": ["a (x)", "b (y)"]}})
    assert str(refusal) == "a restart is forbidden by a (x), b (y)"
    assert "systemd-inhibit --list" in refusal.hint
    assert planned(reboot, {"boot": {"inhibitors": ["a (x)"]}}) == []


@pytest.mark.parametrize(("room", "enough"), [(32 * 2**20 - 1, False), (32 * 2**20, True)])
def test_a_host_is_not_restarted_where_the_initramfs_may_be_cut_short(room, enough):
    full = {"disks": {"/boot": {"total": 2**29, "free": room, "device": 2}}}
    if enough:
        assert planned(reboot, OTHER, full) != []
    else:
        refusal = refused(reboot, OTHER, full)
        assert str(refusal).startswith("/boot has 32 MiB free: the initramfs may be cut short")
        assert refusal.subject == "/boot"
        assert "update-initramfs" in refusal.hint


def test_a_host_without_a_folder_for_kernels_has_no_room_to_lack():
    there = {"status": "ok", "value": {"/": {"total": 2**40, "free": 2**39, "device": 1}}}
    assert planned(reboot, OTHER, disks=there) != []


@pytest.mark.parametrize("name", ["gpu_users", "disks", "kernel", "boot", "driver"])
def test_a_restart_needs_to_know(name):
    assert TIMEOUT["reason"] in str(refused(reboot, OTHER, **{name: TIMEOUT}))
