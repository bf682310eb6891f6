"""What single resources plan, where a whole host's way does not reach."""

import json
from functools import cache
from pathlib import Path

import pytest

from provision import facts, planner, resources, stack
from provision.inventory import Gpus
from provision.plan import Apt, Reboot, Stage
from provision.resources import (
    apt_packages,
    apt_pins,
    apt_source,
    dpkg,
    driver,
    environment,
    headers,
    nouveau,
    persistence,
    reboot,
    unattended,
    uv,
)
from provision.resources.known import NotKnown
from provision.want import Want

RECORDED = json.loads((Path(__file__).parent / "captures" / "facts-finished.json").read_text())
REPOSITORY = stack.Repository(
    url="http://deb.example/cuda/debian12", fingerprint="685771FB645A3AA402ADB97C09D34A4D3B14C1AA"
)
WANT = Want(
    stack=stack.load("lab"),
    uv=stack.load_uv(),
    gpus=Gpus(count=2, model="NVIDIA RTX PRO 6000 Blackwell Server Edition"),
    repository=REPOSITORY,
)
DRIVER = WANT.stack.system.driver.version
KERNEL = RECORDED["facts"]["boot"]["value"]["kernel"]
LOCK = WANT.stack.locks["main"]


@cache
def settled():
    """The recorded host, brought to what is wanted today."""
    raw = RECORDED
    for one in planner.plan("h", WANT, raw).rounds:
        assert one.actionable
        raw = facts.merge(raw, *(change.makes for change in one.changes))
    return raw


def seen(*promises, **answers):
    """The finished host's facts; with what differs, or with other answers."""
    raw = facts.merge(settled(), *promises)
    raw["facts"].update(answers)
    return facts.parse(raw)


def planned(resource, *promises, **answers):
    return resource.plan(WANT, seen(*promises, **answers))


def refused(resource, *promises, **answers):
    with pytest.raises(NotKnown) as caught:
        planned(resource, *promises, **answers)
    return caught.value


def installed(name, version, status="installed"):
    return {"dpkg": {"packages": {name: {"version": version, "status": status, "hold": False}}}}


@pytest.mark.parametrize("resource", resources.ORDER, ids=lambda resource: resource.NAME)
def test_on_a_finished_host_no_resource_has_anything_to_do(resource):
    assert [change for change in planned(resource) if not change.awaited] == []


def test_resources_stand_in_the_order_of_their_stages():
    stages = [resource.STAGE for resource in resources.ORDER]
    assert stages == sorted(stages)


def test_the_query_names_each_thing_once():
    asked = resources.query(WANT)
    lists = [value for value in asked.values() if isinstance(value, list)]
    assert [value for value in lists if len(value) != len(set(value))] == []
    assert apt_pins.PATH in asked["files"]
    assert uv.path(WANT) in asked["uv"]
    assert resources.query(WANT) == asked


# --- packages ----------------------------------------------------------------------------------


def transaction(facts, wanted):
    (change,) = apt_packages.packages_change(
        "r", Stage.PACKAGES, facts, subject="s", wanted=wanted, why="w"
    )
    (apt,) = change.actions
    assert isinstance(apt, Apt)
    return change, apt


NOT_THERE = {"dpkg": {"packages": {"gcc": None, "make": None}}}


@pytest.mark.parametrize(
    ("promise", "wanted", "words"),
    [
        (NOT_THERE, {"gcc": None, "make": None}, ["gcc", "make"]),
        (NOT_THERE, {"gcc": "4:12.2.0-3"}, ["gcc=4:12.2.0-3"]),
        (
            installed("gcc", "4:13"),
            {"gcc": "4:12.2.0-3"},
            ["--allow-downgrades", "gcc=4:12.2.0-3"],
        ),
        (
            installed("gcc", "4:11"),
            {"gcc": "4:12.2.0-3"},
            ["--allow-downgrades", "gcc=4:12.2.0-3"],
        ),
        (installed("gcc", "4:13", "config-files"), {"gcc": None}, ["gcc"]),
        (installed("gcc", "4:13", "half-configured"), {"gcc": None, "make": None}, ["gcc"]),
    ],
)
def test_downgrades_are_allowed_only_where_an_installed_version_moves(promise, wanted, words):
    _, apt = transaction(seen(promise), wanted)
    assert list(apt.argv[len(apt_packages.INSTALL) :]) == words


def test_apt_is_never_asked_for_recommended_packages_or_questions():
    _, apt = transaction(seen(NOT_THERE), {"gcc": None})
    assert {"--yes", "--no-install-recommends"} <= set(apt.argv)


def test_what_is_installed_at_its_version_is_left_alone():
    wanted = {"gcc": None, "nvidia-open": f"{DRIVER}-1"}
    assert (
        apt_packages.packages_change(
            "r", Stage.PACKAGES, seen(), subject="s", wanted=wanted, why="w"
        )
        == []
    )


def simulated(apt, **said):
    return {"simulations": {apt.key: {"install": {}, "remove": {}, "error": None, **said}}}


def test_what_apt_would_remove_is_shown_and_promised():
    facts = seen(NOT_THERE)
    _, apt = transaction(facts, {"gcc": None})
    said = simulated(apt, install={"gcc": [None, "4:12.2.0-3"]}, remove={"old": "1"})
    change, apt = transaction(seen(NOT_THERE, said), {"gcc": None})
    assert (change.before, change.after) == ("gcc absent", "gcc 4:12.2.0-3")
    assert (apt.install, apt.remove) == ({"gcc": [None, "4:12.2.0-3"]}, {"old": "1"})
    assert change.makes["dpkg"]["packages"]["old"] is None


def test_before_apt_was_asked_nothing_is_claimed():
    change, apt = transaction(seen(NOT_THERE), {"gcc": None})
    assert (change.after, apt.install) == ("gcc ?", None)


def test_apt_s_refusal_is_told_in_its_words():
    _, apt = transaction(seen(NOT_THERE), {"gcc": None})
    with pytest.raises(NotKnown, match="apt refuses: held broken packages") as caught:
        transaction(seen(NOT_THERE, simulated(apt, error="held broken packages")), {"gcc": None})
    assert caught.value.subject == "gcc"


def test_an_exact_version_that_no_source_has():
    with pytest.raises(NotKnown, match="gcc 99 is not in any source's index") as caught:
        transaction(seen(NOT_THERE), {"gcc": "99"})
    assert caught.value.hint == "the sources offer 4:12.2.0-3"


def test_a_simulation_that_could_not_be_made_blocks():
    with pytest.raises(NotKnown, match="simulations: no answer"):
        transaction(
            seen(NOT_THERE, simulations={"status": "timeout", "reason": "no answer"}),
            {"gcc": None},
        )


# --- sources -----------------------------------------------------------------------------------


def source(*fingerprints, file="/etc/apt/sources.list.d/by-hand.list"):
    return {"file": file, "suite": "/", "signed_by": "/k.gpg", "fingerprints": list(fingerprints)}


OURS = REPOSITORY.fingerprint


@pytest.mark.parametrize(
    ("sources", "files"),
    [
        ([source("B" * 40)], ["by-hand.list (signed by /k.gpg)"]),
        ([source()], ["by-hand.list"]),
        ([source(OURS, "B" * 40)], ["by-hand.list"]),
        ([source(OURS), source(OURS, file="/etc/apt/sources.list")], ["by-hand.list", "/etc/apt/"]),
    ],
    ids=["another key", "no key", "two keys", "twice"],
)
def test_the_same_repository_with_other_keys_is_refused_and_its_files_are_named(sources, files):
    refusal = refused(apt_source, {"apt": {"sources": {REPOSITORY.url: sources}}})
    assert [file for file in files if file not in str(refusal)] == []
    assert "remove the lines written by hand" in refusal.hint


def test_a_trailing_slash_is_no_other_repository():
    slashed = REPOSITORY.model_copy(update={"url": REPOSITORY.url + "/"})
    want = Want(stack=WANT.stack, uv=WANT.uv, repository=slashed)
    assert apt_source.plan(want, seen()) == []


def test_a_distribution_that_the_stack_does_not_know():
    want = Want(stack=WANT.stack, uv=WANT.uv)
    with pytest.raises(NotKnown, match=r"knows no repository for .* \(debian9\)") as caught:
        apt_source.plan(want, seen({"os": {"version_id": "9"}}))
    assert "debian12" in caught.value.hint
    with pytest.raises(NotKnown, match="knows no driver packages"):
        driver.plan(want, seen({"os": {"id": "plan9"}}))


def test_ubuntu_s_versions_are_spelled_without_the_dot():
    want = Want(stack=WANT.stack, uv=WANT.uv)
    os = seen({"os": {"id": "ubuntu", "version_id": "24.04"}}).os
    assert want.repository_for(os) == WANT.stack.system.repository["ubuntu2404"]


def stanzas(text):
    return [
        dict(line.split(": ", 1) for line in stanza.splitlines() if not line.startswith("#"))
        for stanza in text.split("\n\n")
    ]


@pytest.mark.parametrize(("distribution", "archive"), [("debian", "Debian"), ("ubuntu", "Ubuntu")])
def test_pins_hold_every_package_of_the_driver_and_keep_the_distribution_s_out(
    distribution, archive
):
    text = apt_pins.content(WANT, seen({"os": {"id": distribution}}))
    packages = WANT.stack.system.driver.packages(distribution)
    pins = [stanza for stanza in stanzas(text) if stanza]
    held = next(pin for pin in pins if "nvidia-open" in pin["Package"].split())
    assert set(packages.packages) <= set(held["Package"].split())
    assert held["Pin"] == f"version {DRIVER}{packages.revision}"
    assert held["Pin-Priority"] == "1001"
    toolkits = {pin["Package"]: pin["Pin"] for pin in pins if pin["Package"].startswith("cuda-")}
    assert toolkits == {
        t.package: f"version {t.version}" for t in WANT.stack.system.toolkit.values()
    }
    out = [pin for pin in pins if pin["Pin"] == f"release o={archive}"]
    assert [pin["Pin-Priority"] for pin in out] == ["-1"]


@pytest.mark.parametrize(
    ("file", "before"),
    [(None, "no file"), ({"sha256": "0" * 64, "mode": 0o644}, "000000000000 0644")],
)
@pytest.mark.parametrize("resource", [apt_pins, unattended, nouveau], ids=lambda r: r.NAME)
def test_a_file_of_ours_that_is_gone_or_edited_is_put_back(resource, file, before):
    (change,) = planned(resource, {"files": {resource.PATH: file}})
    assert (change.before, change.actions[0].path) == (before, resource.PATH)


def test_a_file_of_ours_with_another_mode_is_put_back():
    (change,) = planned(nouveau, {"files": {nouveau.PATH: {"mode": 0o600}}})
    assert change.before.endswith(" 0600")
    assert change.after.endswith(" 0644")


@pytest.mark.parametrize(("initramfs", "commands"), [(True, 1), (False, 0)])
def test_the_initramfs_is_made_anew_where_there_is_one(initramfs, commands):
    tools = installed("initramfs-tools", "0.142")
    there = tools if initramfs else {"dpkg": {"packages": {"initramfs-tools": None}}}
    (change,) = planned(nouveau, {"files": {nouveau.PATH: None}}, there)
    assert len(change.actions) == 1 + commands


# --- dpkg --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("promise", "before"),
    [
        ({"dpkg": {"interrupted": True}}, "interrupted: a transaction is unfinished"),
        (installed("gcc", "1", "half-configured"), "interrupted: gcc"),
        (installed("gcc", "1", "unpacked"), "interrupted: gcc"),
        (installed("gcc", "1", "triggers-pending"), "interrupted: gcc"),
    ],
)
def test_an_interrupted_dpkg_is_finished_first(promise, before):
    (change,) = planned(dpkg, promise)
    assert change.before == before
    assert change.actions[0].argv[:3] == ("dpkg", "--configure", "-a")
    assert planned(dpkg, promise, change.makes) == []


def test_a_package_that_was_removed_is_no_interrupted_one():
    assert planned(dpkg, installed("gcc", "1", "config-files")) == []


# --- driver ------------------------------------------------------------------------------------


def test_a_host_without_an_nvidia_device_gets_no_driver():
    refusal = refused(driver, pci={"status": "ok", "value": []})
    assert str(refusal) == "no NVIDIA device on the PCI bus"
    assert "seated" in refusal.hint


def test_pinned_packages_of_another_version_move_with_the_driver():
    (change,) = planned(driver, installed("libcuda1", "595.58.03-1"))
    (apt,) = change.actions
    assert apt.argv[-2:] == ("--allow-downgrades", f"libcuda1={DRIVER}-1")
    assert (change.before, change.after) == ("libcuda1 595.58.03-1", f"libcuda1 {DRIVER}-1")


@pytest.mark.parametrize(
    ("module", "before"),
    [
        (None, "no module"),
        ({"version": "1.2", "license": "Dual MIT/GPL"}, "1.2 (Dual MIT/GPL)"),
        ({"version": DRIVER, "license": "NVIDIA"}, f"{DRIVER} (NVIDIA)"),
    ],
    ids=["missing", "another version", "the proprietary one"],
)
def test_a_kernel_without_the_right_module_gets_it_built(module, before):
    (change,) = planned(driver, {"kernel": {"available": {KERNEL: module}}})
    assert (change.before, change.subject) == (before, f"module for {KERNEL}")
    assert change.actions[0].argv == ("dkms", "autoinstall", "-k", KERNEL)
    assert planned(driver, {"kernel": {"available": {KERNEL: module}}}, change.makes) == []


def test_headers_are_wanted_for_the_running_kernel_and_the_next_one():
    (change,) = planned(headers, {"boot": {"next_kernel": "9.9"}})
    assert change.before == "linux-headers-9.9 absent"
    assert list(headers.expected(WANT, seen({"boot": {"next_kernel": None}}))) == [
        f"linux-headers-{KERNEL}"
    ]


# --- reboot ------------------------------------------------------------------------------------


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


# --- runtime -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("unit", "before"),
    [
        (None, "no such unit"),
        ({"active": "inactive", "enabled": "enabled"}, "inactive, enabled"),
        ({"active": "active", "enabled": "disabled"}, "active, disabled"),
    ],
)
def test_the_persistence_daemon_runs_and_starts_by_itself(unit, before):
    (change,) = planned(persistence, {"units": {persistence.UNIT: unit}})
    assert (change.before, change.after) == (before, "active, enabled")


def test_a_machine_that_no_uv_is_built_for():
    assert "no uv wheel is known for riscv64" in str(refused(uv, {"os": {"arch": "riscv64"}}))


def test_the_uv_wheel_is_the_one_of_the_host_s_machine():
    (change,) = planned(uv, {"os": {"arch": "aarch64"}, "uv": {uv.path(WANT): None}})
    assert change.actions[0].wheel == WANT.uv.wheels["aarch64"]


def releases(*names):
    return {"environments": {"main": {"releases": list(names)}}}


def distributions(**versions):
    return {"environments": {"main": {"distributions": versions}}}


HASH = LOCK.sha256[:12]
NUMPY = LOCK.versions["numpy"]


@pytest.mark.parametrize(
    ("promise", "why"),
    [
        ({"environments": {"main": None}}, "there is none yet"),
        ({"environments": {"main": {"release": None}}}, "there is none yet"),
        ({"environments": {"main": {"lock": "0" * 64}}}, "the lock has changed"),
        (distributions(numpy="1.0"), f"it has drifted: numpy 1.0 instead of {NUMPY}"),
        (distributions(numpy=None), f"it has drifted: numpy absent instead of {NUMPY}"),
        (distributions(evil="6.6"), "it has drifted: evil 6.6 instead of nothing"),
        (
            distributions(numpy=None, evil="6.6"),
            f"it has drifted: evil 6.6 instead of nothing, numpy absent instead of {NUMPY}",
        ),
    ],
)
def test_why_a_new_release_is_made(promise, why):
    (change,) = planned(environment, promise)
    assert change.why == why
    assert planned(environment, promise, change.makes) == []


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ((), f"{HASH}-1"),
        ((f"{HASH}-1",), f"{HASH}-2"),
        ((f"{HASH}-1", f"{HASH}-10", f"{HASH}-2"), f"{HASH}-11"),
        (("0123456789ab-7",), f"{HASH}-1"),
        ((f"{HASH}-3", "0123456789ab-7"), f"{HASH}-4"),
    ],
)
def test_a_release_never_takes_the_number_of_one_that_was_begun(there, expected):
    (change,) = planned(environment, releases(*there), distributions(numpy=None))
    assert change.after.startswith(f"{expected} (")
    assert change.actions[-1].target == f"releases/{expected}"
    assert change.makes["environments"]["main"]["releases"] == sorted([*there, expected])


def test_a_release_is_made_whole_and_sealed_before_it_is_switched_to():
    (change,) = planned(environment, {"environments": {"main": None}})
    assert [action.do for action in change.actions] == ["write", "run", "run", "seal", "switch"]
    install = change.actions[2].argv
    assert {"--require-hashes", "--no-deps", ":all:"} <= set(install)
    assert change.actions[2].env["UV_LINK_MODE"] == "copy"
    assert change.actions[0].content == LOCK.text


@pytest.mark.parametrize("version", ["3.10.4", "3.14.0"])
def test_a_python_that_the_lock_was_not_made_for(version):
    refusal = refused(
        environment,
        {"environments": {"main": None}, "os": {"python": {"version": version}}},
    )
    assert f"/usr/bin/python3 is {version}" in str(refusal)


def test_a_wheel_of_our_own_is_awaited_and_the_environment_is_made_without_it():
    want = Want(stack=stack.load("torch29-cu128"), uv=WANT.uv, repository=REPOSITORY)
    awaited, change = environment.plan(want, seen({"environments": {"main": None}}))
    assert awaited.subject == "main/flash-attn"
    assert (bool(awaited.awaited), awaited.actions) == (True, ())
    assert change.awaited == ""
    assert "flash-attn" not in change.actions[0].content
