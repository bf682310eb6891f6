"""The plan of a build on facts: for which GPUs, what is in its way, what the builder is told."""

import dataclasses
import json

import pytest
from builds import FILE, MIB, UNITS, known, measured, planned, target
from samples import ABSENT, MODEL, WANT, installed, raw, seen

from provision import inventory, stack
from provision.engine import Look
from provision.errors import UsageError
from provision.facts import parse
from provision.plan import Place, Run, Write
from provision.resources.known import NotKnown
from provision.wheelhouse import Manifest
from wheels import profile, recipe
from wheels.build import archs
from wheels.describe import lines
from wheels.plan import BESIDE, GIB, RESERVE, budget, reserved

H200 = "NVIDIA H200"
FLEET = """\
default: h
hosts:
  h: {{stack: torch29-cu128}}
  cold: {{stack: torch29-cu128, gpus: {{count: 8, model: {h200}}}}}
  same: {{stack: torch29-cu128, gpus: {{count: 4, model: {ours}}}}}
  other: {{stack: lab, gpus: {{count: 2, model: NVIDIA L40S}}}}
  unsaid: {{stack: torch29-cu128}}
"""


def change(build):
    """What building the wheel itself comes to."""
    (found,) = (one for one in build.plan.now.changes if one.resource == "wheel")
    return found


def order(build):
    """What the builder is told."""
    (found,) = (
        action
        for action in change(build).actions
        if isinstance(action, Write) and action.path.endswith("/order.json")
    )
    assert found.mode == 0o600
    return json.loads(found.content)


def commands(build):
    return [action.argv for action in change(build).actions if isinstance(action, Run)]


def with_(fact, value):
    """The finished host's facts with another answer."""
    return seen(**{fact: {"status": "ok", "value": value}})


# --- for which GPUs ----------------------------------------------------------------------------


def fleet_archs(name="flash-attn", text=FLEET, facts=None, **changes):
    hosts = inventory.parse(text.format(h200=H200, ours=MODEL), "inventory.yaml")
    there = Look(raw={}, facts=facts or seen(), plan=planned().plan)
    return archs(recipe.load(name).model_copy(update=changes), hosts, target(), there)


def test_archs_are_those_of_the_fleet_with_whose_they_are():
    assert fleet_archs() == {"9.0": f"cold: {H200}", "12.0": f"h: {MODEL}, same: {MODEL}"}


def test_gpus_of_a_host_that_wants_the_wheel_and_that_nobody_knows_are_not_passed_over():
    with pytest.raises(
        UsageError, match=r"gpus\.model: no compute capability is known of 'Voodoo 2'"
    ) as caught:
        fleet_archs(text=FLEET.replace("{h200}", "Voodoo 2"))
    assert caught.value.what.startswith("inventory.yaml:4: ")
    assert "H200" in caught.value.hint


def test_a_recipe_that_names_its_archs_is_for_no_others():
    assert fleet_archs("flash-attn-debian") == {"9.0": "the recipe's"}


CUDA_12_4 = recipe.Toolkit(release="12.4", home="/usr")


def test_an_arch_that_nobody_knows_is_wrong_input_and_comes_with_those_known():
    with pytest.raises(UsageError) as caught:
        fleet_archs(archs=("9.0", "99.0"))
    said = "flash-attn.toml: archs: no GPU of compute capability '99.0' is known"
    assert caught.value.what == said
    assert caught.value.hint.startswith("known: 8.0, 8.6, 8.9, 9.0, 10.0, 12.0; ")


@pytest.mark.parametrize(
    ("named", "whose"),
    [({"archs": ("9.0", "12.0")}, "the recipe's"), ({}, f"h: {MODEL}, same: {MODEL}")],
    ids=["the recipe's", "the fleet's"],
)
def test_an_arch_that_the_toolkit_does_not_know_yet_is_wrong_input(named, whose):
    with pytest.raises(UsageError) as caught:
        fleet_archs(toolkit=CUDA_12_4, **named)
    assert caught.value.what == (
        f"flash-attn.toml: toolkit.release: CUDA 12.4 does not compile for 12.0 ({whose}), "
        "which is known from CUDA 12.8 on"
    )
    assert "`archs`" in caught.value.hint


def test_where_nobody_says_which_gpus_there_are_it_is_asked_for():
    nobody = "default: h\nhosts:\n  h: {stack: torch29-cu128}\n"
    hosts = inventory.parse(nobody, "inventory.yaml")
    there = target()
    there = dataclasses.replace(there, want=dataclasses.replace(there.want, gpus=None))
    bare = raw(gpus=ABSENT, pci=ABSENT)
    look = Look(raw=bare, facts=parse(bare), plan=planned().plan)
    with pytest.raises(UsageError, match="flash-attn: no host says which GPUs") as caught:
        archs(recipe.load("flash-attn"), hosts, there, look)
    assert "`gpus` in the inventory" in caught.value.hint


def test_archs_are_told_in_order_and_as_the_build_wants_them():
    build = planned("flash-attn", archs={"12.0": "a", "9.0": "b"}, versions={"torch": "2.9.1"})
    assert list(build.archs) == ["9.0", "12.0"]
    told = order(build)
    assert told["archs"] == ["9.0", "12.0"]
    assert told["env"]["FLASH_ATTN_CUDA_ARCHS"] == "90;120"
    assert "for GPUs of compute capability 12.0 (a)" in list(lines(build))


# --- what is in its way ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "lab", "says", "hint"),
    [
        (seen(), {"suite": "bookworm"}, "h is a lab host: its nvcc 12.8 is simulated", "builder"),
        (
            with_("toolkits", {"installed": {"13.1": "13.1.115"}, "default": None}),
            None,
            "CUDA 12.8 is not installed",
            "invoke provision --host h",
        ),
        (
            with_("compilers", {"gcc": None, "g++": None, "make": "4.3"}),
            None,
            "there is no gcc, which nvcc needs",
            "invoke provision --host h",
        ),
    ],
    ids=["lab", "no toolkit", "no gcc"],
)
def test_what_keeps_a_build_from_its_host_blocks_it_and_says_what_to_do(facts, lab, says, hint):
    build = planned("flash-attn", where=target(lab=lab), facts=facts, versions={"torch": "2.9.1"})
    found = change(build)
    assert (found.blocked, found.actions) == (says, ())
    assert hint in found.hint
    assert build.plan.now.blocked


@pytest.mark.parametrize(("budget", "blocked"), [(488, False), (487, True)])
def test_a_unit_that_was_measured_to_need_more_than_there_is_blocks_the_build(budget, blocked):
    """Alone it may have what is kept for what runs beside compilers, too."""
    found = change(planned(known=taught(1000, 800, 600), budget=budget * MIB))
    assert bool(found.blocked) == blocked
    if blocked:
        says = "binomial_62_8.cu alone takes 1.0 GiB, and the budget is 0.5 GiB (0.5 more would"
        assert found.blocked.startswith(says)
        assert found.hint.startswith("--budget 1GiB or more")
    assert not change(planned(known=None, budget=budget * MIB)).blocked, "a guess blocks nothing"


def test_a_unit_that_goes_over_the_budget_by_itself_is_said():
    said = "the heaviest is larger than the whole budget"
    within, over = (planned(known=taught(1000, 800, 600), budget=b * MIB) for b in (1000, 999))
    assert not [line for line in lines(within) if line.startswith(said)]
    assert [line for line in lines(over) if line.startswith(said)]


def test_what_is_forced_takes_no_wheel_that_is_here_already():
    here = in_the_wheelhouse()
    assert order(planned(where=here))["spent"] == []
    assert order(planned(where=here, afresh=True))["spent"] == ["0" * 64]


def test_a_wheel_that_would_be_replaced_is_named():
    build = planned(where=in_the_wheelhouse(archs=("12.0",)))
    assert change(build).before == "1.0+cu131 for 12.0"


def test_a_recipe_in_debians_toolkit_wants_its_package():
    found = change(planned("flash-attn-debian", versions={"torch": "2.9.1"}))
    assert found.blocked == "there is no nvcc in /usr/bin, where the recipe's CUDA 12.4 is"
    assert "apt-get install nvidia-cuda-toolkit" in found.hint
    there = installed("nvidia-cuda-toolkit", "12.4.131~12.4.1-2")
    assert not change(planned("flash-attn-debian", there, versions={"torch": "2.9.1"})).blocked


def test_a_recipe_for_a_toolkit_that_the_host_is_not_to_have_wants_another_host():
    found = change(planned("flash-attn-torch211", lock=None, versions={"torch": "2.11.0"}))
    assert found.blocked == "h's stack lab has no CUDA 13.0"
    assert "a host whose stack has it" in found.hint


def test_a_lab_host_builds_with_a_toolkit_from_the_package_index():
    assert not change(planned(where=target(lab={"suite": "bookworm"}))).blocked


@pytest.mark.parametrize(
    ("name", "fact"),
    [
        ("lab-kernels", "os"),
        ("lab-kernels", "memory"),
        ("lab-kernels", "compilers"),
        ("flash-attn", "toolkits"),
        ("flash-attn-debian", "dpkg"),
    ],
)
def test_what_is_not_known_of_the_host_stops_the_plan_with_the_reason(name, fact):
    timeout = {"status": "timeout", "reason": "no answer within 30 s"}
    with pytest.raises(NotKnown, match=f"{fact}: no answer within 30 s"):
        planned(name, facts=seen(**{fact: timeout}), versions={"torch": "2.9.1"})


# --- what is sent ------------------------------------------------------------------------------


def test_the_order_has_all_that_the_builder_goes_by():
    build = planned(known=known(), budget=3 * GIB)
    told = order(build)
    assert told["units"].keys() == set(UNITS)
    predicted = {one.unit.name: one.unit.curve.peak for one in build.predictions}
    peaks = {name: max(size for _, size in one["curve"]) for name, one in told["units"].items()}
    assert peaks == predicted
    assert (told["budget"], told["declared"], told["gate"]) == (3 * GIB, True, True)
    assert told["label"] == told["env"]["LAB_KERNELS_LOCAL_VERSION"] == "cu131"
    site = f"{build.tree}/environment/lib/python3.11/site-packages"
    assert told["home"] == f"{site}/nvidia/cu13"
    assert told["python"] == f"{build.tree}/environment/bin/python"


def test_a_build_is_told_a_date_that_is_always_the_same_unless_its_recipe_names_another():
    assert order(planned())["env"]["SOURCE_DATE_EPOCH"] == "315532800"  # 1980, a zip's earliest
    one = recipe.load("lab-kernels")
    dated = one.build.model_copy(update={"env": {"SOURCE_DATE_EPOCH": "1700000000"}})
    build = planned(one.model_copy(update={"build": dated}))
    assert order(build)["env"]["SOURCE_DATE_EPOCH"] == "1700000000"


def test_source_and_builder_are_uploaded_by_hash_and_placed_in_its_tree():
    build = planned()
    placed = {a.path: a.sha256 for a in change(build).actions if isinstance(a, Place)}
    assert {path: build.uploads[sha256] for path, sha256 in placed.items()} == {
        f"{build.tree}/source.tar.gz": b"the source",
        f"{build.tree}/code.zip": b"the builder",
    }


def test_its_environment_is_made_from_the_lock_by_hash():
    build = planned()
    (install,) = (argv for argv in commands(build) if argv[1:3] == ("pip", "install"))
    assert {"--require-hashes", "--no-deps"} <= set(install)
    locks = [a for a in change(build).actions if isinstance(a, Write) and a.path == install[-1]]
    assert [one.content for one in locks] == ["a lock\n"]


def test_a_host_s_own_interpreter_is_taken_as_it_is():
    want = dataclasses.replace(WANT, stack=stack.load("torch211-cu130"))
    where = dataclasses.replace(target(), want=want)
    build = planned("flash-attn-torch211", where=where, lock=None, versions={"torch": "2.11.0"})
    assert order(build)["python"] == "/opt/torch/bin/python3"
    assert not [argv for argv in commands(build) if "pip" in argv or "venv" in argv]
    assert {one.resource for one in build.plan.now.changes} == {"wheel"}


def test_under_systemd_memory_that_runs_out_does_so_in_the_build_s_own_unit():
    build = planned(budget=3 * GIB)
    argv = commands(build)[-1]
    assert argv[0] == "systemd-run"
    assert f"MemoryMax={3 * GIB + BESIDE}" in argv
    without = raw()
    without["facts"]["os"]["value"]["systemd"] = False
    alone = commands(planned(facts=parse(without), budget=3 * GIB))[-1]
    assert argv[-len(alone) :] == alone


@pytest.mark.parametrize(
    "changes",
    [
        {"archs": {"9.0": "x", "12.0": "y"}},
        {"source": b"another source"},
        {"lock": "another lock\n"},
        {"versions": {"torch": "2.9.1"}},
    ],
    ids=lambda one: next(iter(one)),
)
def test_what_makes_other_objects_has_a_tree_of_its_own(changes):
    assert planned(**changes).tree != planned().tree


def test_what_makes_no_other_objects_goes_on_in_the_same_tree():
    other = planned(budget=GIB, gate=False, code=b"a newer builder", known=known())
    assert other.tree == planned().tree


# --- the wheelhouse ----------------------------------------------------------------------------


def in_the_wheelhouse(**changes):
    wheel = {
        "file": FILE,
        "sha256": "0" * 64,
        "size": 1,
        "requires": (),
        "archs": ("9.0",),
        "glibc": "2.34",
    }
    return target(wheelhouse=[Manifest(**{**wheel, **changes})])


def test_what_the_wheelhouse_has_is_there():
    build = planned(where=in_the_wheelhouse())
    assert build.there
    assert build.there.file == FILE


@pytest.mark.parametrize(
    ("changes", "asked"),
    [
        ({"archs": ("12.0",)}, {}),
        ({"glibc": "2.39"}, {}),
        ({"file": FILE.replace("cp311", "cp312")}, {}),
        ({"file": FILE.replace("cu131", "cu128")}, {}),
        ({}, {"archs": {"9.0": "a", "12.0": "b"}}),
    ],
    ids=["arch", "glibc", "python", "toolkit", "more archs"],
)
def test_a_wheel_of_another_cell_is_none(changes, asked):
    build = planned(where=in_the_wheelhouse(**changes), **asked)
    assert build.there is None
    assert change(build).why == "the wheelhouse has none that fits"


@pytest.mark.parametrize(("requires", "there"), [((), False), (("torch==2.9.1",), True)])
def test_a_wheel_that_does_not_name_its_torch_is_not_taken_for_one_that_does(requires, there):
    file = "flash_attn-2.8.3+cu128torch2.9.1-cp311-cp311-linux_x86_64.whl"
    where = in_the_wheelhouse(file=file, requires=requires)
    build = planned("flash-attn", where=where, versions={"torch": "2.9.1"})
    assert (build.there is not None) is there


# --- memory and jobs ---------------------------------------------------------------------------


def taught(*peaks):
    """A profile in which the units have these peaks (MiB)."""
    rows = [measured(unit, peak) for unit, peak in zip(UNITS, peaks, strict=True)]
    return profile.learned(None, rows, compiler="nvcc 13.1", arch="90")


def host_with(total, available, cpus=16):
    value = {"total": total, "available": available, "limit": None, "cpus": cpus}
    return with_("memory", value)


@pytest.mark.parametrize(
    ("peaks", "room", "cpus", "jobs"),
    [
        ((1000, 800, 600), 2400 * MIB, 16, 3),
        ((1000, 800, 600), 2399 * MIB, 16, 2),
        ((1000, 800, 600), 1799 * MIB, 16, 1),
        ((1000, 800, 600), 488 * MIB, 16, 1),
        ((1000, 800, 600), 2400 * MIB, 2, 2),
    ],
)
def test_without_the_gate_as_many_compilers_as_always_fit(peaks, room, cpus, jobs):
    facts = host_with(64 * GIB, 60 * GIB, cpus)
    build = planned(known=taught(*peaks), facts=facts, budget=room, gate=False)
    told = order(build)
    assert (build.jobs, told["env"]["MAX_JOBS"], told["gate"]) == (jobs, str(jobs), False)
    assert any(f"without the gate, {jobs} at a time" in line for line in lines(build))
    assert build.schedule.peak <= sum(sorted(peaks, reverse=True)[:jobs]) * MIB


def test_with_the_gate_all_are_started_and_wait_there():
    build = planned(known=taught(1000, 800, 600), budget=488 * MIB)
    assert order(build)["env"]["MAX_JOBS"] == str(len(UNITS))


def test_the_budget_is_what_the_host_has_less_a_reserve():
    room, why = budget(host_with(64 * GIB, 60 * GIB, 8), None)
    assert (room.budget, room.cores) == (60 * GIB - reserved(64 * GIB), 8)
    assert why.startswith("60.0 GiB available, less 3.2 GiB")
    assert budget(host_with(64 * GIB, 60 * GIB), 64 * GIB)[1] == "declared"
    assert "more than the 64.0 GiB" in budget(host_with(64 * GIB, 60 * GIB), 65 * GIB)[1]
    told = order(planned(facts=host_with(64 * GIB, 60 * GIB)))
    assert (told["declared"], told["reserve"]) == (False, reserved(64 * GIB))


@pytest.mark.parametrize("total", [GIB, 2 * GIB, 16 * GIB, 2048 * GIB])
def test_the_reserve_leaves_most_to_the_build_on_any_machine(total):
    assert min(GIB, total // 4) <= reserved(total) <= max(GIB, RESERVE * total + 1)
    assert reserved(total) <= total // 4


def test_a_budget_that_was_declared_is_taken_as_it_is():
    room, why = budget(host_with(64 * GIB, GIB), 48 * GIB)
    assert (room.budget, why) == (48 * GIB, "declared")
