"""Builds a recipe's wheel on a host, and brings it home."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version
from pydantic import ValidationError

from provision import engine, wheelhouse, wire
from provision import stack as stacks
from provision.compatibility import seen as compatibility
from provision.errors import ProvisionError, UsageError
from provision.follow import NotConverged, Tell
from provision.inventory import Inventory
from provision.plan import Place
from provision.resources.known import NotKnown
from provision.stop import Stop
from provision.target import Target
from provision.wheelhouse import Manifest
from provision.wire import zipped
from wheels import index, lock, profile, source
from wheels.plan import Build, Order, plan
from wheels.profile import Profile
from wheels.recipe import FOLDER, Recipe

ROOMS = [Path(wire.__file__).parent, Path(__file__).parent]
MARK = "@build "
"""Before what the builder says of itself, among the build's output (see remote/builder.py)."""
QUIET = 30.0
"""Seconds between two lines about a build's state where there is no terminal."""
STATE = ("done", "running", "paused", "waiting", "used", "budget", "left")


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """What the user asked for."""

    recipe: Recipe
    budget: int | None = None
    """Bytes."""
    gate: bool = True
    force: bool = False
    """Build it even where the wheelhouse has it."""


def prepare(wish: Wish, target: Target, seen: engine.Look, archs: Mapping[str, str]) -> Build:
    """Plan a build, with everything that it needs of this computer.

    Raises ProvisionError: a source that can't be fetched, a lock that is not there, a fact that
    is not known.
    """
    recipe = wish.recipe
    stack = lock.stack_of(recipe)
    content = source.fetch(recipe)
    units = source.units(content, recipe.source.units)
    if not units:
        patterns = ", ".join(recipe.source.units)
        raise UsageError(f"{recipe.name}.toml: source.units: no file matches {patterns}")
    if twice := next((one for one, after in pairwise(units) if one == after), ""):
        raise UsageError(
            f"{recipe.name}.toml: source.units: two files are named {twice}",
            hint="a unit is known by its file's name: give them different ones",
        )
    script = recipe.checks.kernels
    if script and not (FOLDER / "kernels" / script).is_file():
        raise UsageError(
            f"{recipe.name}.toml: checks.kernels: there is no {script!r} in wheels/recipes/kernels"
        )
    order = Order(
        archs=archs,
        versions=lock.versions(recipe, stack),
        lock=None if recipe.build.interpreter else lock.load(recipe).text,
        source=content,
        code=zipped(ROOMS),
        units=units,
        kernels=(FOLDER / "kernels" / script).read_text(encoding="utf-8") if script else None,
        budget=wish.budget,
        gate=wish.gate,
        afresh=wish.force,
    )
    if order.lock is not None and (rows := lock.check(recipe)):
        raise UsageError(
            f"{recipe.name}.toml: its lock is out of date: {rows[0].field}: {rows[0].reason}",
            hint=f"invoke lock --recipe {recipe.name}",
        )
    try:
        return plan(recipe, profile.load(recipe.profile), target, seen.facts, order)
    except NotKnown as error:
        what = f"{target.host.name}: the build can't be planned: {error}"
        raise ProvisionError(what, hint=error.hint) from error


def archs(
    recipe: Recipe, inventory: Inventory, target: Target, seen: engine.Look
) -> dict[str, str]:
    """The compute capabilities that the wheel is for → whose GPUs they are.

    The recipe's own, else those of all hosts whose stack wants the wheel, and of the build host.
    Raises UsageError where nobody says any, and for one that its toolkit does not compile for.
    """
    found = dict.fromkeys(recipe.archs, "the recipe's") or _fleet(recipe, inventory, target, seen)
    table = lock.stack_of(recipe).system.architecture
    release = recipe.toolkit.release
    for arch, whose in found.items():
        if arch not in table:
            raise UsageError(
                f"{recipe.name}.toml: archs: no GPU of compute capability {arch!r} is known",
                hint=f"known: {', '.join(table)}; another one goes into the stack's system file",
            )
        if Version(release) < Version(table[arch].cuda):
            raise UsageError(
                f"{recipe.name}.toml: toolkit.release: CUDA {release} does not compile for {arch} "
                f"({whose}), which is known from CUDA {table[arch].cuda} on",
                hint="give the recipe a later toolkit, or `archs` that this one knows",
            )
    return found


def _fleet(
    recipe: Recipe, inventory: Inventory, target: Target, seen: engine.Look
) -> dict[str, str]:
    """What the GPUs are of all hosts whose stack wants the wheel, and of the build host."""
    found: dict[str, list[str]] = {}
    for name, capability in compatibility.gpus(target.want, seen.facts).items():
        if capability:
            found.setdefault(capability, []).append(f"{target.host.name}: {name}")
    for host in inventory.hosts.values():
        if host.name == target.host.name or not host.gpus or not _wants(host.stack, recipe):
            continue
        want = replace(target.want, stack=stacks.load(host.stack), gpus=host.gpus)
        for name, capability in compatibility.gpus(want, None).items():
            if capability is None:
                table = want.stack.system.architecture.values()
                known = ", ".join(model for one in table for model in one.models)
                raise UsageError(
                    f"{host.where}: gpus.model: no compute capability is known of {name!r}, "
                    f"and the stack of {host.name} wants {recipe.wheel}",
                    hint=f"known: {known}; or give the recipe `archs`",
                )
            found.setdefault(capability, []).append(f"{host.name}: {name}")
    if not found:
        raise UsageError(
            f"{recipe.name}: no host says which GPUs the wheel is for",
            hint="give the hosts that want it `gpus` in the inventory, or the recipe `archs`",
        )
    return {arch: ", ".join(whose) for arch, whose in sorted(found.items())}


def _wants(stack: str, recipe: Recipe) -> bool:
    wheels = (w for one in stacks.load(stack).environment.values() for w in one.wheels)
    return any(Requirement(wheel).name == recipe.wheel for wheel in wheels)


def build(target: Target, seen: engine.Look, planned: Build, tell: Tell, stop: Stop) -> Manifest:
    """Carry out the plan, fetch the wheel and put it into the wheelhouse.

    Raises UsageError for a wheelhouse that takes none, NotConverged, Cancelled and the like; what
    was compiled stays on the host.
    """
    wheelhouse.make_ready(wheelhouse.FOLDER)
    there = replace(seen, plan=planned.plan)
    try:
        engine.apply(target, there, heard(tell), stop, planned.uploads)
    except NotConverged as error:
        raise caused(error) from error
    return bring(target, planned, tell)


def caused(error: NotConverged) -> NotConverged:
    """The same failure with the builder's own reason, and only the build's output as its log."""
    said = [_said(line) for line in error.log if line.startswith(MARK)]
    reasons = [one["reason"] for one in said if one.get("event") == "failed"]
    return NotConverged(
        ": ".join([error.what, *map(str, reasons[-1:])]),
        hint=error.hint,
        log=tuple(line for line in error.log if not line.startswith(MARK)),
    )


def _said(line: str) -> dict[str, Any]:
    """What the builder says in a line of output; {} for one that is cut short."""
    try:
        said = json.loads(line.removeprefix(MARK))
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def heard(tell: Tell) -> Tell:
    """The builder's own words as events; everything else as it is.

    What it says of its state is for a line that changes; `now` and then for one that stays.
    """
    spoken = 0.0

    def hear(event: Mapping[str, Any]) -> None:
        line = str(event.get("line", ""))
        if event["event"] != "output" or not line.startswith(MARK):
            tell(event)
            return
        nonlocal spoken
        said = _said(line)
        if text := words(said):
            kept = said.get("event") != "state"
            now = not kept and time.monotonic() - spoken > QUIET
            spoken = time.monotonic() if now else spoken
            tell({"event": "building", "text": text, "kept": kept, "now": now})

    return hear


def words(said: Mapping[str, Any]) -> str:
    """What the builder says, in a line; '' for what it should not say."""
    match said:
        case {"event": "state", "done": 0, "running": 0, "waiting": 0}:
            return ""  # it has not come to its units yet
        case {"event": "state"} if all(isinstance(said.get(n), int) for n in STATE):
            paused = f" ({said['paused']} paused)" if said["paused"] else ""
            used, budget = (said[name] / 2**30 for name in ("used", "budget"))
            return (
                f"{said['done']} done, {said['running']} running{paused}, "
                f"{said['waiting']} waiting; {said['left'] // 60} min {said['left'] % 60:02} s "
                f"to go; {used:.1f} of {budget:.1f} GiB"
            )
        case {"event": "again", "unit": str(unit), "peak": int(peak)}:
            return f"{unit} was killed at {peak / 2**30:.1f} GiB; it waits to run again"
        case {"event": "says", "line": str(line)}:
            return line
        case {"event": "proving", "wheel": str(wheel)}:
            return f"proving {wheel}"
        case {"event": "built", "wheel": str(wheel), "size": int(size)}:
            return f"built {wheel} ({size / 1e6:.1f} MB)"
    return ""


def bring(target: Target, planned: Build, tell: Tell, folder: Path = wheelhouse.FOLDER) -> Manifest:
    """Fetch a finished wheel and its provenance, and learn from it.

    Raises ProvisionError when one is not right; nothing has come in then.
    """
    transport, done = target.transport, f"{planned.tree}/done"
    report = _report(target.host.name, wire.get(transport, f"{done}/report.json"))
    content = wire.get(transport, f"{done}/{report['file']}")
    digest = hashlib.sha256(content).hexdigest()
    manifest = _manifest(target.host.name, report, digest, len(content))
    recipe = planned.recipe
    provenance = {
        "recipe": recipe.model_dump(mode="json"),
        "wheel": manifest.model_dump(mode="json"),
        "inputs": _placed(planned),
        "budget": planned.room.budget,
        "cores": planned.room.cores,
        **{name: value for name, value in report.items() if name != "file"},
    }
    taught = _taught(target.host.name, planned, report)
    files = {
        manifest.file: content,
        f"{manifest.file}.provenance": json.dumps(provenance, indent=1).encode(),
        f"{manifest.file}.json": (manifest.model_dump_json(indent=1) + "\n").encode(),
    }
    try:
        _keep(folder, files)
        if taught:
            profile.save(recipe.profile, taught)
            says = f"the profile {recipe.profile} was updated with what this build has measured"
            tell({"event": "building", "text": says, "kept": True, "now": False})
    except OSError as error:
        failure = wheelhouse.unchanged(error)
        raise ProvisionError(
            failure.what, hint=f"{failure.hint}; the wheel stays on {target.host.name} until then"
        ) from error
    return manifest


def _keep(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write them in this order: without the last, the manifest, the others do not count."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        fresh = folder / f".{name}.{os.getpid()}"
        fresh.write_bytes(data)
        fresh.replace(folder / name)
    index.write(folder)


def _taught(host: str, planned: Build, report: Mapping[str, Any]) -> Profile | None:
    """The recipe's profile with what was measured; None where that is nothing new.

    A build of several archs teaches nothing yet: a profile holds jobs of one, and which part of a
    job was which arch's can't be told from its curve.
    """
    known = profile.load(planned.recipe.profile)
    if len(planned.archs) != 1:
        return None
    (arch,) = planned.archs
    compiler = f"nvcc {planned.recipe.toolkit.release}"
    try:
        taught = profile.learned(
            known, report["units"], compiler=compiler, arch=arch.replace(".", "")
        )
    except (ValueError, TypeError, LookupError, ArithmeticError) as error:
        raise ProvisionError(f"{host}: the build's measurements can't be read: {error}") from error
    return None if taught.measured == (known.measured if known else ()) else taught


def _placed(planned: Build) -> dict[str, str]:
    """What the build got from here: file → sha256."""
    actions = (a for one in planned.plan.rounds for c in one.changes for a in c.actions)
    return {Path(a.path).name: a.sha256 for a in actions if isinstance(a, Place)}


def _report(host: str, content: bytes) -> dict[str, Any]:
    try:
        report = json.loads(content)
        parse_wheel_filename(report["file"])
    except (ValueError, TypeError, LookupError, InvalidWheelFilename) as error:
        raise ProvisionError(f"{host}: the build's report can't be read: {error}") from error
    return dict(report)


def _manifest(host: str, report: Mapping[str, Any], sha256: str, size: int) -> Manifest:
    try:
        proof = report["proof"]
        return Manifest(
            file=report["file"],
            sha256=sha256,
            size=size,
            requires=proof["requires"],
            archs=proof["archs"],
            glibc=proof["glibc"],
        )
    except (ValidationError, TypeError, LookupError) as error:
        raise ProvisionError(f"{host}: the build's report can't be read: {error}") from error
