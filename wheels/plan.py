"""plan(recipe, target, facts) → Build: what is built where, for which GPUs, in how much memory.

Pure. The work itself is a round like any other, which the host carries out detached.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from packaging.version import Version

from provision import TOOL
from provision.facts import Compilers, Facts
from provision.plan import Action, Change, Place, Plan, Round, Run, Stage, Write
from provision.resources import environment, site, uv
from provision.resources.known import NotKnown, known
from provision.target import Target
from provision.wheelhouse import Manifest, Suits, Unfit, fitting
from wheels.profile import Prediction, Profile, predict
from wheels.recipe import Recipe, label
from wheels.remote.admission import Room
from wheels.schedule import Schedule, simulate, static_jobs

ROOT = f"/var/lib/{TOOL}/builds"
GIB = 2**30
RESERVE = 0.05
"""Share of the memory that stays free: sshd, the page cache, what others start meanwhile."""
LEAST_RESERVE = GIB
BESIDE = 512 * 2**20
"""Bytes beside the compilers: ninja, the gates, the linker."""
LONGEST = 86400.0
"""Seconds."""
BOOT = (
    "import sys;sys.path.insert(0,sys.argv[1]);from wheels.remote.builder import main;"
    "sys.exit(main(sys.argv[2]))"
)
INTERPRETER = ("/usr/bin/python3", "-I", "-c", BOOT)


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Build:
    """What would be done, and what is expected of it."""

    recipe: Recipe
    plan: Plan
    tree: str
    """Its folder on the build host."""
    version: str
    archs: Mapping[str, str]
    room: Room
    why: str
    """Where the budget comes from."""
    jobs: int
    """Compilers that are started at most."""
    predictions: tuple[Prediction, ...]
    schedule: Schedule
    uploads: Mapping[str, bytes]
    there: Manifest | None
    """The wheel, where the wheelhouse has it already."""


def plan(recipe: Recipe, profile: Profile | None, target: Target, facts: Facts, order: Order) -> Build:
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
    jobs = max(1, len(units)) if order.gate else static_jobs(units, room)
    uploads = {hashlib.sha256(one).hexdigest(): one for one in (order.source, order.code)}
    change = Change(
        resource="wheel",
        subject=recipe.wheel,
        stage=Stage.RUNTIME,
        before="not built",
        after=f"{version} for {', '.join(archs)}",
        why="the wheelhouse has none that fits" if isinstance(found, Unfit) else "it was asked for",
        actions=() if blocked else _actions(recipe, target, order, tree, archs, room, jobs, predictions),
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
        archs={arch: order.archs[arch] for arch in archs},
        room=room,
        why=why,
        jobs=jobs,
        predictions=predictions,
        schedule=simulate(units, room),
        uploads=uploads,
        there=None if isinstance(found, Unfit) else found,
    )


def budget(facts: Facts, declared: int | None) -> tuple[Room, str]:
    """What the compilers may use, and where that figure comes from."""
    memory = known(facts.memory, "memory")
    if declared is not None:
        return Room(budget=declared, cores=memory.cpus), "declared"
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
    inside = recipe.toolkit.home.startswith("environment")
    if host.lab and not inside:
        return (
            f"{host.name} is a lab host: its nvcc {recipe.toolkit.release} is simulated",
            "name a host with a real toolkit: --host NAME, or `builder` in the inventory",
        )
    release = recipe.toolkit.release
    installed = known(facts.toolkits, "toolkits").installed
    if recipe.toolkit.home == f"/usr/local/cuda-{release}" and not installed.get(release):
        return f"CUDA {release} is not installed", ready
    compilers = known(facts.compilers, "compilers")
    if compilers.get("g++") is None and compilers.get("gcc") is None:
        return "there is no gcc, which nvcc needs", ready
    return "", ""


def _tools(recipe: Recipe, target: Target, facts: Facts) -> Iterable[Change]:
    """uv, where an environment is to be made and it is not there."""
    return () if recipe.build.interpreter else uv.plan(target.want, facts)


def _actions(
    recipe: Recipe,
    target: Target,
    order: Order,
    tree: str,
    archs: Sequence[str],
    room: Room,
    jobs: int,
    predictions: Sequence[Prediction],
) -> tuple[Action, ...]:
    want = target.want
    home = recipe.toolkit.home
    python = recipe.build.interpreter or f"{tree}/environment/bin/python"
    env = environment.ENV | site.environment(want.site)
    make: tuple[Action, ...] = ()
    if order.lock is not None:
        tool, lock = uv.path(want), f"{tree}/lock.txt"
        install = (tool, "pip", "install", "--python", python, "--no-deps", "--require-hashes")
        make = (
            Write(path=lock, content=order.lock),
            Run(
                argv=(
                    *(tool, "venv", "--allow-existing", "--python", environment.INTERPRETER),
                    f"{tree}/environment",
                ),
                env=env,
            ),
            Run(argv=(*install, "--only-binary", ":all:", "-r", lock), env=env, timeout=3600.0),
        )
    text = json.dumps(
        _told(recipe, order, python, home, archs, room, jobs, predictions), sort_keys=True
    )
    unit = f"{TOOL}-build"
    return (
        Place(sha256=hashlib.sha256(order.source).hexdigest(), path=f"{tree}/source.tar.gz"),
        Place(sha256=hashlib.sha256(order.code).hexdigest(), path=f"{tree}/code.zip"),
        *make,
        Write(path=f"{tree}/order.json", content=text, mode=0o600),
        *_contained(unit, room, (*INTERPRETER, f"{tree}/code.zip", f"{tree}/order.json"), facts_systemd=True),
    )
