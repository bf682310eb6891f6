"""The driver's packages: which move, follow, go and keep their marks, and what is kept of them."""

import pytest
from samples import (
    DRIVER,
    KERNEL,
    WANT,
    apt_answer,
    installed,
    planned,
    raw,
    refused,
    seen,
    with_driver,
)

from provision import planner
from provision.plan import Apt, Keep, Run, Write
from provision.promises import merge
from provision.resources import apt_packages, driver

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
    lacks = {"kernel": {"available": {KERNEL: module}}}
    (change,) = planned(driver, lacks)
    assert f"there is {before} for {KERNEL}" in change.why
    assert change.actions[0].argv == (*apt_packages.REINSTALL, "nvidia-kernel-open-dkms")
    assert planned(driver, lacks, change.makes) == []


# --- strays ------------------------------------------------------------------------------------


def words(change):
    """What apt is asked beyond what it is always asked."""
    (apt,) = (action for action in change.actions if isinstance(action, Apt))
    return list(apt.argv[len(apt_packages.INSTALL) :])


def offered(name, *versions):
    """The promise that sources offer a package in these versions."""
    policy = {"candidate": versions[0], "versions": dict.fromkeys(versions, "http://deb.example")}
    return {"apt": {"policy": {name: policy}}}


WANTED = f"{DRIVER}-1"


def stray(name, version, *offers, **marks):
    """A part of a driver that is installed, and what sources offer of it."""
    found = [installed(name, version, **marks)]
    return [*found, offered(name, *offers)] if offers else found


STRAYS = {
    "another version of a part that came along": (
        stray("libnvidia-encode1", "595.58.03-1", "595.58.03-1", WANTED),
        [f"libnvidia-encode1={WANTED}"],
    ),
    "a part of another branch": (
        stray("nvidia-driver-550", "550.163.01-1", "550.163.01-1"),
        ["nvidia-driver-550-"],
    ),
    "the distribution's own build": (
        stray("nvidia-tesla-470-driver", "470.256.02-2"),
        ["nvidia-tesla-470-driver-"],
    ),
    "Ubuntu's part of the X server": (
        stray("xserver-xorg-video-nvidia-550", "550.163.01-0ubuntu1"),
        ["xserver-xorg-video-nvidia-550-"],
    ),
    "the metapackage that drags a driver along": (stray("cuda", "13.1.1-1"), ["cuda-"]),
    "such a metapackage of one release": (stray("cuda-13-1", "13.1.1-1"), ["cuda-13-1-"]),
    "the driver's own metapackage": (
        stray("cuda-drivers", WANTED, WANTED),
        ["cuda-drivers-"],
    ),
    "a runtime": (stray("cuda-runtime-12-8", "12.8.1-1"), ["cuda-runtime-12-8-"]),
}


@pytest.mark.parametrize("case", STRAYS, ids=STRAYS)
def test_parts_of_another_driver_follow_or_go(case):
    there, asked = STRAYS[case]
    (change,) = planned(driver, *there)
    assert words(change) == ["--allow-downgrades", *asked]
    assert planned(driver, *there, change.makes) == []


@pytest.mark.parametrize(
    "name",
    [
        "xserver-xorg-video-nvidia",
        "libegl-nvidia0",
        "libglx-nvidia0",
        "libgles-nvidia2",
        "libgl1-nvidia-glvnd-glx",
        "libcudadebugger1",
        "libcuda1:i386",
    ],
)
def test_every_part_of_debian_s_driver_follows(name):
    (change,) = planned(driver, *stray(name, "595.58.03-1", "595.58.03-1", WANTED))
    assert words(change) == ["--allow-downgrades", f"{name}={WANTED}"]


UNTOUCHED = {
    "the container toolkit": ("nvidia-container-toolkit", "1.17.8-1"),
    "its library": ("libnvidia-container1", "1.17.8-1"),
    "a part that followed already": ("libnvidia-encode1", WANTED),
    "a toolkit": ("cuda-toolkit-12-6", "12.6.3-1"),
    "a part of a toolkit": ("cuda-nvcc-12-6", "12.6.85-1"),
    "the key": ("cuda-keyring", "1.1-1"),
    "a library of CUDA": ("libcudnn9-cuda-13", "9.15.1.9-1"),
    "a kernel": ("linux-image-6.1.0-42-amd64", "6.1.159-1"),
}


@pytest.mark.parametrize("case", UNTOUCHED, ids=UNTOUCHED)
def test_what_is_no_part_of_another_driver_is_left_alone(case):
    name, version = UNTOUCHED[case]
    assert planned(driver, installed(name, version), offered(name, WANTED, version)) == []


def test_what_is_not_properly_installed_is_no_stray():
    assert planned(driver, installed("cuda", "13.1.1-1", "half-configured")) == []


# --- marks -------------------------------------------------------------------------------------


def marks(change):
    """The commands beside the transaction."""
    return [" ".join(action.argv) for action in change.actions if isinstance(action, Run)]


def test_a_held_package_is_moved_and_held_again():
    held = installed("libcuda1", "595.58.03-1", hold=True)
    (change,) = planned(driver, held)
    assert words(change) == [
        *("--allow-downgrades", "--allow-change-held-packages", f"libcuda1={WANTED}"),
    ]
    assert marks(change) == ["apt-mark hold libcuda1"]
    assert change.makes["dpkg"]["packages"]["libcuda1"]["hold"] is True


def test_a_held_package_of_somebody_else_s_that_apt_moves_along_is_held_again():
    """Told to change one that is held, apt takes the others, too."""
    there = [
        installed("libcuda1", "595.58.03-1", hold=True),
        *(installed(name, "1.0", hold=True) for name in ("tree", "vim")),
    ]
    (change,) = planned(driver, *there)
    (apt,) = (action for action in change.actions if isinstance(action, Apt))
    moved = apt_answer(install={"libcuda1": ["595.58.03-1", WANTED], "tree": ["1.0", "1.1"]})
    (change,) = planned(driver, *there, {"simulations": {apt.key: moved}})
    assert marks(change) == ["apt-mark hold libcuda1 tree"]
    notes = [a.path.rpartition("/")[2] for a in change.actions if isinstance(a, Write)]
    assert notes == ["libcuda1", "tree"]


def test_a_held_package_that_goes_is_not_held_again():
    (change,) = planned(driver, installed("cuda", "13.1.1-1", hold=True))
    assert "--allow-change-held-packages" in words(change)
    assert marks(change) == []


def test_without_a_held_package_none_may_be_changed():
    (change,) = planned(driver, installed("libcuda1", "595.58.03-1"))
    assert "--allow-change-held-packages" not in words(change)
    assert marks(change) == []


def test_what_followed_stays_apt_s_own_to_remove():
    (change,) = planned(driver, installed("libcuda1", "595.58.03-1", auto=True))
    assert marks(change) == ["apt-mark auto libcuda1"]
    assert change.makes["dpkg"]["packages"]["libcuda1"]["auto"] is True


def test_what_is_wanted_by_name_is_not_marked_as_a_dependency():
    (change,) = planned(driver, installed("nvidia-open", "595.58.03-1", auto=True))
    assert marks(change) == []
    assert change.makes["dpkg"]["packages"]["nvidia-open"]["auto"] is False


def test_hold_and_dependency_are_both_kept():
    (change,) = planned(driver, installed("libcuda1", "595.58.03-1", hold=True, auto=True))
    assert marks(change) == ["apt-mark hold libcuda1", "apt-mark auto libcuda1"]


def test_toolkits_outlive_the_metapackage_that_brought_them():
    found = raw(
        installed("cuda", "13.1.1-1"), installed("cuda-toolkit-13-1", "13.1.1-1", auto=True)
    )
    metapackage, toolkit = planner.plan("h", WANT, found).now.changes
    assert words(metapackage)[-1] == "cuda-"
    assert toolkit.actions[0].argv == ("apt-mark", "manual", "cuda-toolkit-13-1")


def test_apt_is_asked_about_every_transaction_of_the_round():
    promise = {"dpkg": {"packages": {"nvidia-open": None}}}
    first = planner.plan("h", WANT, raw(promise))
    (apt,) = first.now.unasked
    takes = {"install": {"nvidia-open": [None, WANTED]}, "remove": {"make": "4.3-4.1"}}
    said = {"simulations": {apt.key: apt_answer(**takes)}}
    then = planner.plan("h", WANT, merge(raw(promise), said))
    assert [words(c)[-1] for c in then.now.changes] == [f"nvidia-open={WANTED}", "make"]
    assert [one.argv[-1] for one in then.now.unasked] == ["make"]


# --- what is kept to go back to ----------------------------------------------------------------

NEXT = "595.58.03"
NEXT_WANT = with_driver(NEXT)
FOLDER = f"/var/lib/firstlight/kept/{WANTED}"


def kept(*promises, want=NEXT_WANT, **answers):
    """The change to the next driver, and what it keeps of the one before."""
    (change,) = planned(driver, *promises, want=want, **answers)
    keeps = [action for action in change.actions if isinstance(action, Keep)]
    assert keeps == list(change.actions[: len(keeps)]), "the packages are kept first"
    return change, keeps


def only_installed(name, version=WANTED):
    """No source offers what is installed of a package."""
    versions = {**seen().apt.policy[name].versions, version: "installed"}
    return {"apt": {"policy": {name: {"versions": versions}}}}


def files(*versions, names=("nvidia-open",)):
    """The promise of files that were kept."""
    path = "/var/lib/firstlight/kept/{0}/{1}_{0}_amd64.deb"
    return {"kept": {name: {v: path.format(v, name) for v in versions} for name in names}}


def test_what_is_replaced_is_kept_with_all_that_came_along():
    change, (keep,) = kept()
    assert (keep.folder, keep.forget) == (FOLDER, ())
    parts = [n for n, p in seen().dpkg.packages.items() if p and p.version == WANTED]
    assert keep.packages == dict.fromkeys(parts, WANTED)
    assert set(change.makes["kept"]) == set(parts)
    assert planned(driver, change.makes, want=NEXT_WANT) == []


def test_a_part_that_no_source_offers_any_more_is_not_kept():
    _, (keep,) = kept(only_installed("libcuda1"))
    assert "libcuda1" not in keep.packages
    assert "nvidia-open" in keep.packages


def test_a_part_of_another_version_is_not_kept():
    _, (keep,) = kept(installed("libcuda1", "590.44.01-1", auto=True))
    assert "libcuda1" not in keep.packages


@pytest.mark.parametrize(
    "there",
    [
        only_installed("nvidia-open"),
        {"dpkg": {"packages": {"nvidia-open": None}}},
        installed("nvidia-open", WANTED, "config-files"),
        installed("nvidia-open", f"{NEXT}-1"),
    ],
    ids=["no source has it", "of another making", "removed", "it is the wanted one"],
)
def test_a_driver_that_can_t_be_gone_back_to_is_not_kept(there):
    change, keeps = kept(there)
    assert keeps == []
    assert "kept" not in change.makes


def test_of_those_before_one_stays():
    _, (keep,) = kept(files("580.159.04-1", "575.51.03-1", WANTED, f"{NEXT}-1"))
    root = "/var/lib/firstlight/kept"
    assert keep.forget == (f"{root}/575.51.03-1", f"{root}/580.159.04-1")


def test_what_is_forgotten_is_promised_away():
    older = files("580.159.04-1")
    change, _ = kept(older)
    after = raw(older, change.makes)["facts"]["kept"]["value"]
    assert after["nvidia-open"] == {"580.159.04-1": None, WANTED: "?"}


def test_a_fact_about_kept_packages_is_needed_before_any_driver_moves():
    reason = refused(driver, want=NEXT_WANT, kept={"status": "timeout", "reason": "no answer"})
    assert "no answer" in str(reason)


# --- going back --------------------------------------------------------------------------------


def unoffered(*names):
    """The host has the next driver, and the sources know no version but that."""
    policy = {"candidate": f"{NEXT}-1", "versions": {f"{NEXT}-1": "http://deb.example"}}
    apt = raw()["facts"]["apt"]["value"]
    apt = {**apt, "policy": {**apt["policy"], **dict.fromkeys(names, policy)}}
    there = [installed(name, f"{NEXT}-1") for name in names]
    return there, {"status": "ok", "value": apt}


def test_what_no_source_offers_any_more_is_installed_from_the_kept_files():
    there, apt = unoffered("nvidia-open", "libcuda1")
    found = files(WANTED, names=("nvidia-open", "libcuda1", "nvidia-persistenced"))
    (change,) = planned(driver, *there, found, apt=apt)
    assert words(change) == [
        "--allow-downgrades",
        f"{FOLDER}/libcuda1_{WANTED}_amd64.deb",
        f"{FOLDER}/nvidia-open_{WANTED}_amd64.deb",
    ]


def test_what_a_source_offers_comes_from_there():
    found = files(WANTED, names=("nvidia-open",))
    (change,) = planned(driver, installed("nvidia-open", f"{NEXT}-1"), found)
    assert words(change) == ["--allow-downgrades", f"nvidia-open={WANTED}"]


def test_what_was_neither_kept_nor_offered_blocks():
    there, apt = unoffered("nvidia-open", "libcuda1")
    reason = refused(driver, *there, files(WANTED, names=("nvidia-open",)), apt=apt)
    assert str(reason) == f"libcuda1 {WANTED} is not in any source's index"


def test_a_part_beside_the_stack_s_own_goes_back_too_if_it_was_kept():
    """And is removed if it was not: a part of another version would break the driver."""
    name = "libnvidia-encode1"
    stray_part = stray(name, f"{NEXT}-1", f"{NEXT}-1")
    (change,) = planned(driver, *stray_part, files(WANTED, names=(name,)))
    assert words(change) == ["--allow-downgrades", f"{FOLDER}/{name}_{WANTED}_amd64.deb"]
    (change,) = planned(driver, *stray_part)
    assert words(change) == ["--allow-downgrades", f"{name}-"]
