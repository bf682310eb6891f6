"""plan(recipe, target, facts) → Build: what is built where, for which GPUs, in how much memory.

Pure. The work itself is a round like any other, which the host carries out detached.
"""

from __future__ import annotations

import hashlib
import json
import math
from calendar import timegm
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from provision import TOOL
from provision.facts import Facts, Os
from provision.plan import Action, Change, Place, Plan, Round, Run, Stage, Write
from provision.resources import environment, site, uv
from provision.resources.known import known
from provision.target import Target
from provision.wheelhouse import Manifest, Suits, Unfit, fitting
from wheels.profile import Prediction, Profile, predict
from wheels.recipe import ENVIRONMENT, Recipe, label
from wheels.remote.admission import Room, Unit, decide
from wheels.remote.label import EPOCH
from wheels.schedule import Schedule, at_most, exact, simulate, static_jobs

ROOT = f"/var/lib/{TOOL}/builds"
GIB = 2**30
RESERVE = 0.05
"""Share of the memory that stays free: sshd, the page cache, what others start meanwhile."""
LEAST_RESERVE = GIB
BESIDE = 512 * 2**20
"""Bytes beside the compilers: ninja, the gates, the linker."""
LONGEST = 86400.0
"""Seconds."""
DEBIANS = "nvidia-cuda-toolkit"
"""Debian's own package of nvcc, in /usr."""
UNIT = f"{TOOL}-build"
"""One build at a time on a host: its run holds the host's lock."""
NOT_LOADED = 5
"""systemctl's exit status for a unit that there is not."""
BOOT = (
    "import sys;sys.path.insert(0,sys.argv[1]);from wheels.remote.builder import main;"
    "sys.exit(main(sys.argv[2]))"
)

WORKER = (environment.SYSTEM_PYTHON, "-I", "-c", BOOT)


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """What is asked for, beside the recipe itself."""

    archs: Mapping[str, str]
    """Compute capability → whose it is."""
    versions: Mapping[str, str]
    """Of what the wheel is built against."""
    lock: str | None
    """The build environment's; None where the host has one."""
    source: bytes
    code: bytes
    units: Sequence[str]
    kernels: str | None = None
    """The script that tests the kernels."""
    budget: int | None = None
    """Bytes that the user declared."""
    gate: bool = True
    afresh: bool = False
    """Nothing of a build is taken whose wheel the wheelhouse has."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Build:
    """What would be done, and what is expected of it."""

    recipe: Recipe
    plan: Plan
    tree: str
    """Its folder on the build host."""
    version: str
    versions: Mapping[str, str]
    archs: Mapping[str, str]
    room: Room
    why: str
    """Where the budget comes from."""
    gate: bool
    jobs: int
    """Compilers that are started at most."""
    predictions: tuple[Prediction, ...]
    schedule: Schedule
    uploads: Mapping[str, bytes]
    there: Manifest | None
    """The wheel, where the wheelhouse has it already."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Told:
    """What was reckoned, for the build host."""

    tree: str
    archs: Sequence[str]
    room: Room
    reserve: int
    """Bytes that stay free."""
    jobs: int
    predictions: Sequence[Prediction]
    here: Sequence[Manifest]
    """The recipe's wheels that the wheelhouse has."""


def plan(
    recipe: Recipe, profile: Profile | None, target: Target, facts: Facts, order: Order
) -> Build:
    """What building this wheel on this host comes to. Raises NotKnown where a fact is missing."""
    os = known(facts.os, "os")
    archs = tuple(sorted(order.archs, key=lambda arch: tuple(map(int, arch.split(".")))))
    room, why = budget(facts, order.budget)
    compiler = f"nvcc {recipe.toolkit.release}"
    threads = min(recipe.threads, len(archs))
    predictions = predict(
        profile, order.units, archs=len(archs), threads=threads, compiler=compiler
    )
    units = [one.unit for one in predictions]
    version = f"{recipe.version}+{label(recipe, dict(order.versions))}"
    suits = Suits(
        versions=order.versions,
        python=os.python.version,
        glibc=os.libc.rpartition(" ")[2],
        archs=archs,
    )
    found = fitting(
        (one for one in target.want.wheelhouse if set(_pins(order)) <= set(one.requires)),
        f"{recipe.wheel}=={version}",
        suits,
    )
    key = _key(recipe, order, archs, os.python.version)
    tree = f"{ROOT}/{key}"
    blocked, hint = _obstacle(recipe, target, facts)
    if not blocked:
        blocked, hint = _too_large(predictions, room)
    jobs = max(1, len(units)) if order.gate else static_jobs(units, room)
    uploads = {hashlib.sha256(one).hexdigest(): one for one in (order.source, order.code)}
    told = _Told(
        tree=tree,
        archs=archs,
        room=room,
        reserve=reserved(known(facts.memory, "memory").total),
        jobs=jobs,
        predictions=predictions,
        here=[one for one in target.want.wheelhouse if one.name == recipe.wheel],
    )
    before = [one for one in told.here if one.version == version]
    change = Change(
        resource="wheel",
        subject=recipe.wheel,
        stage=Stage.RUNTIME,
        before=", ".join(f"{one.version} for {', '.join(one.archs)}" for one in before)
        or "not built",
        after=f"{version} for {', '.join(archs)}",
        why="the wheelhouse has none that fits" if isinstance(found, Unfit) else "it was asked for",
        actions=() if blocked else _actions(recipe, target, os, order, told),
        blocked=blocked,
        hint=hint,
    )
    changes = [*_tools(recipe, target, facts), change]
    return Build(
        recipe=recipe,
        plan=Plan(
            host=target.host.name, stack=recipe.stack, rounds=(Round(changes=tuple(changes)),)
        ),
        tree=tree,
        version=version,
        versions=order.versions,
        archs={arch: order.archs[arch] for arch in archs},
        room=room,
        why=why,
        gate=order.gate,
        jobs=jobs,
        predictions=predictions,
        schedule=simulate(exact(units), room, decide if order.gate else at_most(jobs)),
        uploads=uploads,
        there=None if isinstance(found, Unfit) else found,
    )


def budget(facts: Facts, declared: int | None) -> tuple[Room, str]:
    """What the compilers may use, and where that figure comes from."""
    memory = known(facts.memory, "memory")
    if declared is not None:
        have = memory.total if memory.limit is None else memory.limit
        more = f", more than the {have / GIB:.1f} GiB that there are" if declared > have else ""
        return Room(budget=declared, cores=memory.cpus), f"declared{more}"
    reserve = reserved(memory.total)
    room = max(memory.available - reserve, GIB // 2)
    why = f"{memory.available / GIB:.1f} GiB available, less {reserve / GIB:.1f} GiB in reserve"
    return Room(budget=room, cores=memory.cpus), why


def reserved(total: int) -> int:
    """Bytes that stay free on a machine of this size; on a small one never more than a quarter."""
    return min(max(LEAST_RESERVE, round(total * RESERVE)), total // 4)


def _key(recipe: Recipe, order: Order, archs: Sequence[str], python: str) -> str:
    """Names the tree: what makes other objects has another one."""
    parts = [
        recipe.name,
        recipe.toolkit.model_dump(mode="json"),
        recipe.build.model_dump(mode="json", exclude={"requirements", "forbidden"}),
        recipe.threads,
        dict(order.versions),
        hashlib.sha256(order.source).hexdigest(),
        hashlib.sha256((order.lock or "").encode()).hexdigest(),
        list(archs),
        python,
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


def _pins(order: Order) -> list[str]:
    return [f"{name}=={version}" for name, version in order.versions.items()]


def _obstacle(recipe: Recipe, target: Target, facts: Facts) -> tuple[str, str]:
    """Why it can't be built there, and what to do; '' when it can."""
    host = target.host
    ready = f"invoke provision --host {host.name}"
    release, home = recipe.toolkit.release, recipe.toolkit.home
    if home.startswith("/usr/local/cuda"):
        if release not in target.want.stack.toolkits:
            return (
                f"{host.name}'s stack {host.stack} has no CUDA {release}",
                "name a host whose stack has it: --host NAME, or `builder` in the inventory",
            )
        if host.lab:
            return (
                f"{host.name} is a lab host: its nvcc {release} is simulated",
                "name a host with a real toolkit: --host NAME, or `builder` in the inventory",
            )
        if home == f"/usr/local/cuda-{release}" and not known(
            facts.toolkits, "toolkits"
        ).installed.get(release):
            return f"CUDA {release} is not installed", ready
    if home == "/usr" and not known(facts.dpkg, "dpkg").packages.get(DEBIANS):
        return (
            f"there is no nvcc in {home}/bin, where the recipe's CUDA {release} is",
            f"apt-get install {DEBIANS}: Debian has it in non-free",
        )
    compilers = known(facts.compilers, "compilers")
    if compilers.get("g++") is None and compilers.get("gcc") is None:
        return "there is no gcc, which nvcc needs", ready
    return "", ""


def _too_large(predictions: Sequence[Prediction], room: Room) -> tuple[str, str]:
    """The unit that was measured to need more than all may have: it could only be killed."""
    units = [one.unit for one in predictions if one.measured]
    heaviest = max(units, key=lambda unit: unit.curve.peak, default=None)
    most = room.budget + BESIDE
    if heaviest is None or heaviest.curve.peak <= most:
        return "", ""
    needs = heaviest.curve.peak / GIB
    budget = f"{room.budget / GIB:.1f} GiB ({BESIDE / GIB:.1f} more would be let pass)"
    return (
        f"{heaviest.name} alone takes {needs:.1f} GiB, and the budget is {budget}",
        f"--budget {math.ceil(needs)}GiB or more, on a host that has it",
    )


def _tools(recipe: Recipe, target: Target, facts: Facts) -> Iterable[Change]:
    """uv, where an environment is to be made and it is not there."""
    return () if recipe.build.interpreter else uv.plan(target.want, facts)


def _actions(
    recipe: Recipe, target: Target, os: Os, order: Order, told: _Told
) -> tuple[Action, ...]:
    tree = told.tree
    tool, lock = uv.path(target.want), f"{tree}/lock.txt"
    env = environment.ENV | site.environment(target.want.site)
    make: tuple[Action, ...] = ()
    if order.lock is not None:
        here = f"{tree}/environment"
        venv = (tool, "venv", "--quiet", "--allow-existing", "--python", environment.SYSTEM_PYTHON)
        install = (
            *(tool, "pip", "install", "--python", f"{here}/bin/python", "--no-deps"),
            *("--require-hashes", "--only-binary", ":all:", "--requirements", lock),
        )
        make = (
            Write(path=lock, content=order.lock),
            Run(argv=(*venv, here), env=env),
            Run(argv=install, env=env, timeout=3600.0),
        )
    files = {order.source: "source.tar.gz", order.code: "code.zip"}
    content = json.dumps(_order(recipe, os, order, told), sort_keys=True)
    worker = (*WORKER, f"{tree}/code.zip", f"{tree}/order.json")
    return (
        *(
            Place(sha256=hashlib.sha256(content).hexdigest(), path=f"{tree}/{name}")
            for content, name in files.items()
        ),
        *make,
        Write(path=f"{tree}/order.json", content=content, mode=0o600),
        *(_contained(worker, told.room) if os.systemd else (Run(argv=worker, timeout=LONGEST),)),
    )


def _contained(worker: tuple[str, ...], room: Room) -> tuple[Action, ...]:
    """The build in a unit of its own: where memory runs out all the same, it does so in there.

    Another one of that name is what a run left that was killed.
    """
    most = room.budget + BESIDE
    limits = {
        "MemoryHigh": most - BESIDE // 2,  # on cgroup v2: slower before it is killed
        "MemoryMax": most,
        "MemorySwapMax": 0,
        "OOMPolicy": "continue",
        "Nice": 19,
    }
    words = [word for name, value in limits.items() for word in ("-p", f"{name}={value}")]
    start = ("systemd-run", "--quiet", "--wait", "--pipe", "--collect", f"--unit={UNIT}")
    return (
        Run(argv=("systemctl", "stop", UNIT), accepts=(0, NOT_LOADED), timeout=120.0),
        Run(argv=(*start, *words, *worker), timeout=LONGEST),
    )


def _order(recipe: Recipe, os: Os, order: Order, told: _Told) -> dict[str, Any]:
    """What the builder on the host is told; see wheels/remote/builder.py."""
    build, jobs = recipe.build, recipe.build.jobs
    threads = min(recipe.threads, len(told.archs))
    count = told.jobs * threads if jobs.means == "jobs*threads" else told.jobs
    version = label(recipe, dict(order.versions))
    site_packages = _site(os, told.tree)
    guess = predict(
        None, ["other"], archs=len(told.archs), threads=threads, compiler=recipe.toolkit.release
    )
    return {
        "wheel": recipe.wheel,
        "version": recipe.version,
        "label": version,
        "pins": dict(order.versions),
        "archs": list(told.archs),
        "python": build.interpreter or f"{told.tree}/environment/bin/python",
        "backend": build.backend,
        "release": recipe.toolkit.release,
        "spent": [one.sha256 for one in told.here if order.afresh],
        "home": recipe.toolkit.home.replace(ENVIRONMENT, site_packages),
        "links": dict(recipe.toolkit.links),
        "env": {
            # Without it the wheel's files tell when it was built.
            "SOURCE_DATE_EPOCH": str(timegm(EPOCH)),
            **{name: text.replace(ENVIRONMENT, site_packages) for name, text in build.env.items()},
            build.label: version,
            build.archs.variable: build.archs.text(tuple(told.archs)),
            jobs.variable: str(count),
            **({jobs.threads: str(threads)} if jobs.threads else {}),
        },
        "forbidden": list(build.forbidden),
        "imports": list(recipe.checks.imports),
        "kernels": order.kernels,
        "gate": order.gate,
        "budget": told.room.budget,
        "declared": order.budget is not None,
        "reserve": told.reserve,
        "cores": told.room.cores,
        "units": {one.unit.name: _unit(one.unit) for one in told.predictions},
        "guess": _unit(guess[0].unit),
    }


def _unit(unit: Unit) -> dict[str, Any]:
    return {"curve": unit.curve.to_json(), "cores": unit.cores}


def _site(os: Os, tree: str) -> str:
    """Where the build environment has its distributions."""
    minor = ".".join(os.python.version.split(".")[:2])
    return f"{tree}/environment/lib/python{minor}/site-packages"
