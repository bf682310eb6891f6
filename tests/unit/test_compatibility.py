"""What goes together: each rule right, wrong and unknown, on data; both sides are always named."""

import pytest
from samples import ABSENT, MODEL, TIMEOUT, planned, seen

from provision import compatibility, stack
from provision.compatibility.row import Verdict
from provision.inventory import Gpus
from provision.locking import text
from provision.locking.inputs import inputs
from provision.resources import preflight
from provision.stack import Lock, Repository
from provision.want import Want

REAL = stack.load("torch29-cu128")
OK, VIOLATED, UNKNOWN = Verdict.OK, Verdict.VIOLATED, Verdict.UNKNOWN
SHA = f"sha256:{'0' * 64}"
PINS = {
    "torch": "2.9.1",
    "vllm": "0.15.1",
    "numba": "0.61.2",
    "numpy": "2.2.6",
    "nvidia-cuda-runtime-cu12": "12.8.90",
}
REQUIREMENTS = ("torch==2.9.1", "vllm==0.15.1", "numpy<2.3")
KEY = "EB693B3035CD5710E231E123A4B469963BF863CC"


def want(
    *,
    pins=(),
    requirements=REQUIREMENTS,
    wheels=("flash-attn==2.8.3",),
    toolkits=("13.1", "12.8"),
    system=(),
    **more,
):
    """The real stack and its lock, but for what differs."""
    main = REAL.environment["main"]
    main = main.model_copy(update={"requirements": requirements, "wheels": wheels})
    changed = {
        "environment": {"main": main},
        "toolkits": toolkits,
        "system": REAL.system.model_copy(update=dict(system)),
    }
    one = REAL.model_copy(update=changed)
    locked = {name: version for name, version in (PINS | dict(pins)).items() if version}
    rows = [text.Pin(name=name, version=version, hashes=(SHA,)) for name, version in locked.items()]
    one.__dict__["locks"] = {"main": Lock(text=text.write(inputs(one, "main").header, rows))}
    return Want(stack=one, uv=stack.load_uv(), **more)


def toolkit(**fields):
    """The system with a toolkit 12.4, and what is said of it."""
    one = REAL.system.toolkit["12.8"].model_copy(update={"driver": "550.54.14", **fields})
    return {"toolkit": {**REAL.system.toolkit, "12.4": one}}


def driver(version):
    return {"driver": REAL.system.driver.model_copy(update={"version": version})}


def repositories(**changed):
    return {"repository": {**REAL.system.repository, **changed}}


def rows(wanted, facts, rule):
    return [row for row in compatibility.check(wanted, facts) if row.rule == rule]


BLACKWELL = {"gpus": Gpus(count=8, model=MODEL)}
BARE = {"gpus": ABSENT, "pci": ABSENT}


# rule, want, facts → both sides of the one row that is violated
WRONG = {
    "a toolkit for a driver that is too old": (
        "toolkit.driver",
        want(system=driver("570.124.06")),
        None,
        ("CUDA 13.1 wants driver 590.48.01, at the least 580", "the stack's driver is 570.124.06"),
    ),
    "torch's CUDA for a driver that is too old": (
        "torch.driver",
        want(system=driver("520.61.05"), toolkits=()),
        None,
        ("torch 2.9.1 brings CUDA 12.8, which wants driver 525", "driver is 520.61.05"),
    ),
    "nvcc 12.8 on Debian 13": (
        "toolkit.glibc",
        want(),
        seen({"os": {"libc": "glibc 2.41", "name": "Debian GNU/Linux 13 (trixie)"}}),
        ("nvcc 12.8 reads the headers of a glibc below 2.41", "the host has glibc 2.41 (Debian"),
    ),
    "gcc 15 with nvcc 12.8": (
        "toolkit.gcc",
        want(),
        seen({"compilers": {"gcc": "15.2.0"}}),
        ("nvcc 12.8 takes gcc up to 14", "the host's is gcc 15.2.0"),
    ),
    "gcc 15 that apt would install": (
        "toolkit.gcc",
        want(),
        seen({"compilers": {"gcc": None}, "apt": {"policy": {"gcc": {"candidate": "4:15.1.0-2"}}}}),
        ("nvcc 12.8 takes gcc up to 14", "the host's is gcc 15.1.0"),
    ),
    "sm_120 with CUDA 12.4, by the inventory": (
        "toolkit.architecture",
        want(toolkits=("12.4",), system=toolkit(), **BLACKWELL),
        None,
        ("nvcc is of CUDA 12.4", f"{MODEL} is sm_120, known from CUDA 12.8 on"),
    ),
    "sm_120 with CUDA 12.4, by nvidia-smi": (
        "toolkit.architecture",
        want(toolkits=("12.4",), system=toolkit()),
        seen(),
        ("nvcc is of CUDA 12.4", f"{MODEL} is sm_120, known from CUDA 12.8 on"),
    ),
    "sm_120 with CUDA 12.4, by its PCI id": (
        "toolkit.architecture",
        want(toolkits=("12.4",), system=toolkit()),
        seen(gpus=ABSENT),
        ("nvcc is of CUDA 12.4", "10de:2bb5 is sm_120, known from CUDA 12.8 on"),
    ),
    "sm_120 with a torch of CUDA 12.4": (
        "torch.architecture",
        want(pins={"nvidia-cuda-runtime-cu12": "12.4.127"}, **BLACKWELL),
        None,
        ("torch 2.9.1 is of CUDA 12.4", "is sm_120, known from CUDA 12.8 on"),
    ),
    "a torch of CUDA 12 with wheels and no such toolkit": (
        "torch.toolkit",
        want(toolkits=("13.1",)),
        None,
        ("flash-attn==2.8.3 is built for torch 2.9.1 of CUDA 12.8", "stack's toolkits are 13.1"),
    ),
    "a torch of CUDA 13 with wheels and no such toolkit": (
        "torch.toolkit",
        want(
            toolkits=("12.8",),
            pins={"nvidia-cuda-runtime-cu12": "", "nvidia-cuda-runtime": "13.0.48"},
        ),
        None,
        ("for torch 2.9.1 of CUDA 13.0", "the stack's toolkits are 12.8"),
    ),
    "a wheel for another torch than vLLM 0.17's": (
        "wheel.torch",
        want(
            requirements=("vllm==0.17.0",),
            wheels=("flash-attn==2.8.3+cu128torch2.9.1",),
            pins={"vllm": "0.17.0", "torch": "2.10.0"},
        ),
        None,
        (
            "flash-attn==2.8.3+cu128torch2.9.1 is built for torch 2.9.1 of CUDA 12.8",
            "the lock has torch 2.10.0 of CUDA 12.8",
        ),
    ),
    "a wheel for another CUDA": (
        "wheel.torch",
        want(wheels=("flash-attn==2.8.3+cu130torch2.9.1",)),
        None,
        ("is built for torch 2.9.1 of CUDA 13.0", "the lock has torch 2.9.1 of CUDA 12.8"),
    ),
    "a NumPy that Numba refuses": (
        "numba.numpy",
        want(requirements=("numpy",), pins={"numpy": "2.3.0"}),
        None,
        ("numba 0.61.2 takes NumPy below 2.3", "environment main has NumPy 2.3.0"),
    ),
    "a lock that is not what the stack asks for": (
        "lock",
        want(pins={"torch": "2.10.0"}),
        None,
        (
            "the stack asks for torch==2.9.1",
            "the lock of environment main has 2.10.0 for Python 3.11, 3.12, 3.13",
        ),
    ),
    "a Python without a lock": (
        "environment.python",
        want(),
        seen({"os": {"python": {"version": "3.10.12"}}}),
        ("locked for Python >=3.11,<3.14", "the host's /usr/bin/python3 is 3.10.12"),
    ),
    "wheels for a later glibc": (
        "environment.platform",
        want(),
        seen({"os": {"libc": "glibc 2.28"}}),
        ("wheels for a glibc of 2.31 or later", "the host has glibc 2.28"),
    ),
    "Debian 13 with the key that it refuses": (
        "repository.key",
        want(
            system=repositories(
                debian13=REAL.system.repository["debian13"].model_copy(update={"fingerprint": KEY})
            )
        ),
        None,
        (f"apt of debian13 refuses the key {KEY}", f"its repository is signed by {KEY}"),
    ),
    "a mirror for Debian 13 with that key": (
        "repository.key",
        want(repository=Repository(url="http://mirror.example/cuda", fingerprint=KEY)),
        seen({"os": {"version_id": "13"}}),
        (f"apt of debian13 refuses the key {KEY}", f"its repository is signed by {KEY}"),
    ),
    "Debian 12's repository for Debian 13": (
        "repository.folder",
        want(
            system=repositories(
                debian13=REAL.system.repository["debian13"].model_copy(
                    update={"url": REAL.system.repository["debian12"].url}
                )
            )
        ),
        None,
        ("this is the repository for debian13", "its address is that for debian12"),
    ),
}


@pytest.mark.parametrize("case", WRONG, ids=WRONG)
def test_what_can_t_be_together_is_told_with_both_its_sides(case):
    rule, wanted, facts, (left, right) = WRONG[case]
    (row,) = [row for row in rows(wanted, facts, rule) if row.verdict is VIOLATED]
    assert left in row.left
    assert right in row.right
    assert row.reason
    assert row.hint


@pytest.mark.parametrize("case", WRONG, ids=WRONG)
def test_it_is_refused_before_anything_is_touched(case):
    rule, wanted, facts, (left, right) = WRONG[case]
    if facts is None and rule.startswith("repository"):
        facts = seen({"os": {"version_id": "13", "libc": "glibc 2.36"}})
    blocked = [change.blocked for change in preflight.plan(wanted, facts or seen(**BARE))]
    assert [text for text in blocked if left in text and right in text]


def test_the_shipped_stacks_hold_every_rule():
    for name in stack.names():
        found = compatibility.check(Want(stack=stack.load(name), uv=stack.load_uv()))
        assert compatibility.violated(found) == []


def test_a_host_that_is_right_holds_every_rule():
    found = compatibility.check(want(), seen())
    assert {row.verdict for row in found} == {OK}
    assert len(found) == len({(row.rule, row.subject, row.right) for row in found})


# rule, want, facts → what is said instead of a verdict
UNTOLD = {
    "a gcc without a host": ("toolkit.gcc", want(), None, "name one with --host"),
    "a glibc without a host": ("toolkit.glibc", want(), None, "name one with --host"),
    "GPUs without a host": ("toolkit.architecture", want(), None, "name one with --host"),
    "a system that was not found out": (
        "environment.python",
        want(),
        seen(os=TIMEOUT),
        "os: no answer within 30 s",
    ),
    "compilers that were not found out": (
        "toolkit.gcc",
        want(),
        seen(compilers=TIMEOUT),
        "compilers: no answer within 30 s",
    ),
    "no gcc, and none offered": (
        "toolkit.gcc",
        want(),
        seen({"compilers": {"gcc": None}}, apt=TIMEOUT),
        "there is no gcc yet",
    ),
    "another C library": (
        "environment.platform",
        want(),
        seen({"os": {"libc": "musl 1.2"}}),
        "the host has musl 1.2",
    ),
    "a host without GPUs": (
        "torch.architecture",
        want(),
        seen(**BARE),
        "no GPUs are seen or expected",
    ),
    "a GPU that is in no table": (
        "toolkit.architecture",
        want(gpus=Gpus(count=1, model="NVIDIA X1")),
        None,
        "no table of ours tells the compute capability of NVIDIA X1",
    ),
    "a Numba that is in no table": (
        "numba.numpy",
        want(pins={"numba": "0.99.0"}),
        None,
        "numba.toml does not know numba 0.99.0",
    ),
    "a torch without CUDA": (
        "torch.toolkit",
        want(pins={"nvidia-cuda-runtime-cu12": ""}),
        None,
        "the lock has no CUDA runtime",
    ),
    "a torch of a CUDA to come": (
        "torch.driver",
        want(pins={"nvidia-cuda-runtime-cu12": "", "nvidia-cuda-runtime": "14.0.1"}),
        None,
        "no least driver is known for CUDA 14.0",
    ),
}


@pytest.mark.parametrize("case", UNTOLD, ids=UNTOLD)
def test_what_is_not_known_is_neither_fine_nor_wrong(case):
    rule, wanted, facts, words = UNTOLD[case]
    found = rows(wanted, facts, rule)
    assert {row.verdict for row in found} == {UNKNOWN}
    assert all(words in row.right for row in found)


def test_a_driver_between_the_two_minima_runs_it_by_minor_version_compatibility():
    first, second = rows(want(system=driver("585.10")), None, "toolkit.driver")
    assert (first.verdict, first.reason) == (
        OK,
        "by minor-version compatibility, so without PTX",
    )
    assert (second.verdict, second.reason) == (OK, "")


def test_a_toolkit_of_the_same_major_builds_and_it_is_said_that_torch_warns():
    pins = {"nvidia-cuda-runtime-cu12": "12.6.77"}
    (row,) = rows(want(pins=pins), None, "torch.toolkit")
    assert (row.verdict, row.reason) == (
        OK,
        "CUDA 12.8 is of the same major: torch builds with it, and warns",
    )


def test_without_wheels_no_toolkit_is_needed():
    assert rows(want(wheels=(), toolkits=("13.1",)), None, "torch.toolkit") == []


def test_an_environment_without_torch_has_nothing_to_do_with_its_rules():
    bare = want(pins={"torch": ""}, requirements=("numpy<2.3",), wheels=("own-wheel==1.0",))
    found = [row.rule for row in compatibility.check(bare) if row.verdict is not UNKNOWN]
    assert [rule for rule in found if "torch" in rule] == []


def test_a_requirement_that_is_read_otherwise_is_said():
    (row,) = rows(want(requirements=("numpy<=2.2",)), None, "numpy.series")
    assert (row.left, row.right) == (
        "environment main asks for numpy<=2.2",
        "it is read as numpy<2.3",
    )
    assert rows(want(), None, "numpy.series") == []


@pytest.mark.parametrize(
    ("model", "capability"),
    [
        (MODEL, "sm_120"),
        ("NVIDIA GeForce RTX 5090", "sm_120"),
        ("NVIDIA B200", "sm_100"),
        ("NVIDIA H200", "sm_90"),
        ("NVIDIA H100 80GB HBM3", "sm_90"),
        ("NVIDIA L40S", "sm_89"),
        ("NVIDIA RTX 6000 Ada Generation", "sm_89"),
        ("NVIDIA RTX A6000", "sm_86"),
        ("NVIDIA A100-SXM4-80GB", "sm_80"),
    ],
)
def test_the_compute_capability_of_a_model(model, capability):
    found = rows(want(gpus=Gpus(count=1, model=model)), None, "toolkit.architecture")
    assert {row.right.split(",")[0] for row in found} == {f"{model} is {capability}"}


def test_a_host_s_own_distribution_alone_counts_against_it():
    other = repositories(
        debian13=REAL.system.repository["debian13"].model_copy(update={"fingerprint": KEY})
    )
    assert rows(want(system=other), seen(), "repository.key") == []
    (folder,) = rows(want(system=other), seen(), "repository.folder")
    assert folder.subject == "debian12"


def test_a_stack_that_can_t_work_blocks_a_host_that_is_right():
    (change,) = planned(preflight, want=want(toolkits=("13.1",)))
    assert change.subject == "environment main"
    assert "the stack's toolkits are 13.1" in change.blocked
    assert change.hint == "add a toolkit 12.8 to the stack's toolkits"
