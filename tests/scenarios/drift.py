"""What happens to hosts between and within rounds, each as a change of the probe's JSON.

None of it is beyond mending: what a plan can only refuse (a full disk, a driver of a .run file) is
no drift. Every function takes what is wanted and the facts, and gives the facts afterwards.
"""

from __future__ import annotations

from provision.facts import Os
from provision.facts import parse as parse_facts
from provision.promises import merge
from provision.resources import apt_pins, apt_source, nouveau, persistence, site, unattended, uv

OLDER, NEWER = "6.1.0-1-amd64", "6.99.0-1-amd64"
"""Kernels beside the one that a scenario's host was recorded with."""
OTHER = "595.58.03"
MODULE = {"version": OTHER, "license": "Dual MIT/GPL"}
EDITED = {"sha256": "0" * 64, "mode": 0o644}


def answer(raw, name):
    """A collector's value."""
    return raw["facts"][name].get("value", {})


def replaced(raw, name, value):
    """The facts with another value of a collector: a merge only adds."""
    return {**raw, "facts": {**raw["facts"], name: {"status": "ok", "value": value}}}


def package(version, **marks):
    return {"version": version, "status": "installed", "hold": False, "auto": False, **marks}


def packages(raw, **named):
    """The facts with these packages, whose names have _ for -; None: removed."""
    return merge(raw, {"dpkg": {"packages": {n.replace("_", "-"): p for n, p in named.items()}}})


def moved(raw, part, **fields):
    """The facts with something else of every installed package that has `part` in its name."""
    there = [name for name, p in answer(raw, "dpkg")["packages"].items() if p and part in name]
    return merge(raw, {"dpkg": {"packages": dict.fromkeys(there, fields)}})


def uri(want, raw):
    os = parse_facts(raw).os
    assert isinstance(os, Os)
    return apt_source.repository(want, os).url.rstrip("/")


# --- packages ----------------------------------------------------------------------------------


def driver_upgraded_under_its_module(want, raw):
    if not answer(raw, "dpkg")["packages"].get("nvidia-open"):
        return raw
    built = dict.fromkeys(answer(raw, "kernel")["available"], MODULE)
    nvml = {"exit": 18, "message": "Driver/library version mismatch"}
    nvml |= {"driver": None, "cuda": None}
    return merge(
        moved(raw, "nvidia", version=f"{OTHER}-1"),
        {"kernel": {"available": built}, "driver": {"library": OTHER}, "nvml": nvml},
    )


def driver_of_the_archive(want, raw):
    old = package("535.261.03-1", auto=True)
    return packages(raw, nvidia_kernel_dkms=old, libcuda1=old, nvidia_driver_libs=old)


def package_held_at_another_version(want, raw):
    return moved(raw, "nvidia-persistenced", version=f"{OTHER}-1", hold=True)


def dpkg_interrupted(want, raw):
    return merge(raw, {"dpkg": {"interrupted": True}})


def package_half_configured(want, raw):
    return moved(raw, "nvidia-open", status="half-configured")


def package_cut_short(want, raw):
    return moved(raw, "nvidia-persistenced", status="half-installed", reinstreq=True)


def packages_only_unpacked(want, raw):
    return dpkg_interrupted(want, moved(raw, "cuda", status="unpacked"))


def toolkit_removed(want, raw):
    release, toolkit = next(iter(want.stack.toolkit.items()))
    gone = {"toolkits": {"installed": {release: None}}}
    return merge(raw, {"dpkg": {"packages": {toolkit.package: None}}}, gone)


def nvcc_deleted(want, raw):
    return merge(raw, {"toolkits": {"installed": dict.fromkeys(want.stack.toolkit)}})


def nvidia_smi_deleted(want, raw):
    return merge(raw, {"driver": {"smi": False}})


def compiler_removed(want, raw):
    return packages(raw, gcc=None)


def compiler_as_a_dependency(want, raw):
    return moved(raw, "g++", auto=True)


def headers_removed(want, raw):
    there = answer(raw, "dpkg")["packages"]
    return merge(
        raw, {"dpkg": {"packages": dict.fromkeys(n for n in there if "linux-headers" in n)}}
    )


def pins_of_nvidia_s_own(want, raw):
    return packages(raw, nvidia_driver_pinning_580=package("580-1"))


# --- sources and files -------------------------------------------------------------------------


def source_removed(want, raw):
    apt = answer(raw, "apt")
    gone = uri(want, raw)
    kept = {
        name: {key: part for key, part in apt[name].items() if key != gone}
        for name in ("sources", "fresh")
    }
    return replaced(raw, "apt", {**apt, **kept, "policy": {}})


def source_that_contradicts(want, raw):
    apt = answer(raw, "apt")
    there = apt["sources"].get(uri(want, raw), [])
    second = {
        "file": "/etc/apt/sources.list.d/second.list",
        "suite": "/",
        "signed_by": None,
        "fingerprints": [],
        "trusted": False,
    }
    conflict = {"error": "Conflicting values set for option Signed-By", "policy": {}}
    sources = {**apt["sources"], uri(want, raw): [*there, second]}
    return replaced(raw, "apt", {**apt, **(conflict if there else {}), "sources": sources})


def index_grown_old(want, raw):
    return merge(raw, {"apt": {"fresh": dict.fromkeys(answer(raw, "apt")["fresh"], False)}})


def pins_edited(want, raw):
    return merge(raw, {"files": {apt_pins.PATH: EDITED}})


def files_gone(want, raw):
    return merge(raw, {"files": dict.fromkeys((apt_pins.PATH, unattended.PATH, nouveau.PATH))})


def file_unreadable_to_others(want, raw):
    there = answer(raw, "files").get(nouveau.PATH)
    return merge(raw, {"files": {nouveau.PATH: {"mode": 0o600}}}) if there else raw


def proxy_of_a_former_site(want, raw):
    return merge(raw, {"files": {site.APT: EDITED, site.UNITS: EDITED}})


# --- kernels and modules -----------------------------------------------------------------------


def booted(raw, kernel):
    """The facts after a reboot into a kernel: its module is loaded, if it has one."""
    module = answer(raw, "kernel")["available"].get(kernel)
    version = module["version"] if module else None
    flavour = ("open" if "GPL" in module["license"] else "proprietary") if module else None
    loaded = dict.fromkeys(answer(raw, "kernel")["loaded"]) | {"nvidia": version}
    nvml = {"exit": 0 if module else 9, "message": "", "driver": version}
    nvml |= {"cuda": "13.1" if module else None}
    return merge(
        raw,
        {"boot": {"kernel": kernel}, "kernel": {"loaded": loaded}, "nvml": nvml},
        {"driver": {"loaded": version, "flavour": flavour}},
    )


def rebooted(want, raw):
    boot = answer(raw, "boot")
    return booted(raw, boot["next_kernel"] or boot["kernel"])


def rebooted_into_an_older_kernel(want, raw):
    there = answer(raw, "kernel")["available"]
    return booted(merge(raw, {"kernel": {"available": {OLDER: there.get(OLDER)}}}), OLDER)


def newer_kernel_without_a_module(want, raw):
    there = answer(raw, "kernel")["available"]
    image = package("6.99.0-1", auto=True)
    return merge(
        packages(raw, **{f"linux-image-{NEWER}": image}),
        {"boot": {"next_kernel": NEWER}, "kernel": {"available": {NEWER: there.get(NEWER)}}},
    )


def nouveau_loaded(want, raw):
    return merge(
        raw,
        {"kernel": {"loaded": {"nvidia": None, "nouveau": ""}}},
        {"driver": {"loaded": None, "flavour": None}},
        {"nvml": {"exit": 9, "message": "couldn't communicate with the driver", "driver": None}},
    )


def module_not_built(want, raw):
    kernels = answer(raw, "kernel")["available"]
    return merge(raw, {"kernel": {"available": dict.fromkeys(kernels)}})


def module_of_the_other_flavour(want, raw):
    version = want.stack.system.driver.version
    return merge(
        raw,
        {"kernel": {"loaded": {"nvidia": version}}},
        {"driver": {"loaded": version, "flavour": "proprietary"}},
    )


# --- what runs ---------------------------------------------------------------------------------


def persistence_stopped(want, raw):
    return merge(raw, {"units": {persistence.UNIT: {"active": "failed", "enabled": "enabled"}}})


def persistence_masked(want, raw):
    return merge(raw, {"units": {persistence.UNIT: {"active": "inactive", "enabled": "masked"}}})


def uv_of_another_version(want, raw):
    return merge(raw, {"uv": {uv.path(want): "0.1.0"}})


def uv_gone(want, raw):
    return merge(raw, {"uv": {uv.path(want): None}})


def environment(raw, **fields):
    there = answer(raw, "environments").get("main")
    return merge(raw, {"environments": {"main": fields}}) if there else raw


def environment_drifted(want, raw):
    return environment(raw, distributions={"numpy": "9.9", "stray": "1.0"}, intact=False)


def environment_of_another_lock(want, raw):
    return environment(raw, lock="0" * 64)


def environment_not_switched_to(want, raw):
    return environment(raw, release=None, lock=None, python=None, intact=False, distributions={})


def environment_removed(want, raw):
    return merge(raw, {"environments": {"main": None}})


def python_upgraded(want, raw):
    now = answer(raw, "os")["python"]["version"]
    return merge(raw, {"os": {"python": {"version": "3.12.9" if "3.13" in now else "3.13.5"}}})


def cloud_init_running(want, raw):
    return replaced(raw, "cloud_init", {"running": True})


ALL = (
    *(driver_upgraded_under_its_module, driver_of_the_archive, package_held_at_another_version),
    *(dpkg_interrupted, package_half_configured, package_cut_short, packages_only_unpacked),
    *(toolkit_removed, nvcc_deleted, nvidia_smi_deleted, compiler_removed, headers_removed),
    *(compiler_as_a_dependency, pins_of_nvidia_s_own, source_removed, source_that_contradicts),
    *(index_grown_old, pins_edited, files_gone, file_unreadable_to_others, proxy_of_a_former_site),
    *(rebooted, rebooted_into_an_older_kernel, newer_kernel_without_a_module, nouveau_loaded),
    *(module_not_built, module_of_the_other_flavour, persistence_stopped, persistence_masked),
    *(uv_of_another_version, uv_gone, environment_drifted, environment_of_another_lock),
    *(environment_not_switched_to, environment_removed, python_upgraded, cloud_init_running),
)
