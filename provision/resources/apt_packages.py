"""Packages by apt. Not a resource: the transaction that headers, driver and others share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from provision.facts import Dpkg, Facts, Package, Simulation, Unknown
from provision.plan import Action, Apt, Change, Json, Remove, Run, Stage, Write
from provision.promises import UNSEEN
from provision.remote import paths
from provision.resources.known import NotKnown, known

Wanted = Mapping[str, str | None]
"""Package → the exact version, None for any."""

INSTALL = (
    "apt-get",
    "install",
    "--yes",
    "--no-install-recommends",
    "-o",
    "DPkg::Lock::Timeout=600",
    "-o",
    "Dpkg::Options::=--force-confdef",
    "-o",
    "Dpkg::Options::=--force-confold",
)
REINSTALL = (*INSTALL, "--reinstall")
CHANGE_HELD = "--allow-change-held-packages"
HELD = str(paths.HELD)
"""A file named after each package that is to be held again: see `holds`."""
RESERVE = 512 * 2**20
"""Bytes that stay free: apt counts files, not what scripts write, modules and an initrd for one."""


def installed(version: str) -> dict[str, Any]:
    """What dpkg says of a package that was installed by name."""
    return {"version": version, "status": "installed", "hold": False, "auto": False}


def there(dpkg: Dpkg, name: str) -> Package | None:
    """The package if it is properly installed."""
    package = dpkg.packages.get(name)
    return package if package and package.status == "installed" else None


def missing(wanted: Wanted, dpkg: Dpkg) -> dict[str, str | None]:
    """What of the wanted is not installed, or in another version."""
    return {name: version for name, version in wanted.items() if not _right(dpkg, name, version)}


def packages_change(
    resource: str,
    stage: Stage,
    facts: Facts,
    *,
    subject: str,
    wanted: Wanted,
    why: str,
    moved: Wanted | None = None,
    unwanted: Iterable[str] = (),
    first: tuple[Action, ...] = (),
    makes: Json | None = None,
) -> list[Change]:
    """The change that installs what is missing and removes what is unwanted; [] when all is right.

    `moved` are packages that came along with others and must follow to a version; they stay
    apt's own to remove. What is right but may be removed by apt is marked as wanted.
    Raises NotKnown with apt's own words when it refuses the transaction.
    """
    dpkg = known(facts.dpkg, "dpkg")
    lacking = missing({**(moved or {}), **wanted}, dpkg)
    gone = [name for name in unwanted if there(dpkg, name)]
    if not lacking and not gone:
        return _marked(resource, stage, dpkg, wanted)
    files = _available(lacking, facts)
    apt = asked(facts, _argv(lacking, gone, dpkg, files))
    held = _held({**lacking, **(apt.install or {})}, dpkg)
    noted, then = holding(held)
    follow = [name for name in lacking if name not in wanted and _auto(dpkg, name)]
    then += (Run(argv=("apt-mark", "auto", *follow)),) if follow else ()
    afterwards: dict[str, Any] = {
        name: installed(_then(name, lacking, apt)) | {"hold": name in held, "auto": name in follow}
        for name in lacking
    }
    return [
        Change(
            resource=resource,
            subject=subject,
            stage=stage,
            before=", ".join(f"{name} {_now(dpkg, name)}" for name in (*lacking, *gone)),
            after=", ".join(
                [f"{name} {_then(name, lacking, apt)}" for name in lacking]
                + [f"{name} removed" for name in gone]
            ),
            why=why,
            actions=(*first, *noted, apt, *then),
            makes={
                **(makes or {}),
                "dpkg": {"packages": afterwards | dict.fromkeys([*gone, *apt.remove])},
            },
        )
    ]


def _marked(resource: str, stage: Stage, dpkg: Dpkg, wanted: Wanted) -> list[Change]:
    """Wanted packages that came as somebody's dependency: autoremove must not take them."""
    auto = [name for name in wanted if _auto(dpkg, name)]
    if not auto:
        return []
    return [
        Change(
            resource=resource,
            subject=", ".join(auto),
            stage=stage,
            before="installed as a dependency",
            after="installed by name",
            why="`apt autoremove` would take it once what brought it is gone",
            actions=(Run(argv=("apt-mark", "manual", *auto)),),
            makes={"dpkg": {"packages": {name: {"auto": False} for name in auto}}},
        )
    ]


def reinstalled(
    resource: str,
    stage: Stage,
    facts: Facts,
    *,
    subject: str,
    names: list[str],
    why: str,
    makes: Json,
) -> Change:
    """The change that unpacks packages anew, whose files or products are damaged."""
    dpkg = known(facts.dpkg, "dpkg")
    option = [CHANGE_HELD] if _held(names, dpkg) else []
    apt = asked(facts, (*REINSTALL, *option, *names))
    noted, then = holding(_held({**dict.fromkeys(names), **(apt.install or {})}, dpkg))
    return Change(
        resource=resource,
        subject=subject,
        stage=stage,
        before="damaged",
        after=", ".join(f"{name} {_now(dpkg, name)} anew" for name in names),
        why=why,
        actions=(*noted, apt, *then),
        makes=makes,
    )


def _held(names: Iterable[str], dpkg: Dpkg) -> list[str]:
    return [name for name in names if (package := there(dpkg, name)) and package.hold]


def holding(held: list[str]) -> tuple[tuple[Action, ...], tuple[Action, ...]]:
    """What comes before and after a transaction with these packages: dpkg forgets their holds.

    Also those that apt moves along: told to change one that is held, it takes others, too.
    """
    if not held:
        return (), ()
    notes = [f"{HELD}/{name}" for name in held]
    return (
        tuple(Write(path=note, content="") for note in notes),
        (Run(argv=("apt-mark", "hold", *held)), *(Remove(path=note) for note in notes)),
    )


def _right(dpkg: Dpkg, name: str, version: str | None) -> bool:
    package = there(dpkg, name)
    return package is not None and version in (None, UNSEEN, package.version)


def _auto(dpkg: Dpkg, name: str) -> bool:
    package = there(dpkg, name)
    return package is not None and package.auto


def _now(dpkg: Dpkg, name: str) -> str:
    package = there(dpkg, name)
    return package.version if package else "absent"


def _then(name: str, lacking: Wanted, apt: Apt) -> str:
    simulated = apt.install.get(name) if apt.install else None
    return lacking[name] or (simulated[1] if simulated else None) or UNSEEN


def _argv(
    lacking: Wanted, gone: list[str], dpkg: Dpkg, files: Mapping[str, str]
) -> tuple[str, ...]:
    now = [package for name in (*lacking, *gone) if (package := there(dpkg, name))]
    options = ["--allow-downgrades"] if now else []
    options += [CHANGE_HELD] if any(package.hold for package in now) else []
    names = (
        files.get(name) or (name if version is None else f"{name}={version}")
        for name, version in lacking.items()
    )
    return (*INSTALL, *options, *names, *(f"{name}-" for name in gone))


def kept(facts: Facts, name: str, version: str | None) -> str | None:
    """The file of a package that was kept on the host, None where there is none."""
    files = known(facts.kept, "kept").get(name, {})
    return files.get(version) if version else None


def _available(lacking: Wanted, facts: Facts) -> dict[str, str]:
    """The files of those that no index has, but the host has kept.

    Raises NotKnown when an index that was read lacks an exact version, and the host, too.
    """
    files: dict[str, str] = {}
    apt = known(facts.apt, "apt")
    if apt.error:
        raise NotKnown(f"apt can't read its configuration: {apt.error}", subject="configuration")
    for name, version in lacking.items():
        offered = apt.policy[name].versions if name in apt.policy else {}
        if version is None or version in offered:
            continue
        if file := kept(facts, name, version):
            files[name] = file
        else:
            raise NotKnown(
                f"{name} {version} is not in any source's index",
                subject=name,
                hint=f"the sources offer {', '.join(offered) or 'no version of it'}",
            )
    return files


def asked(facts: Facts, argv: tuple[str, ...]) -> Apt:
    """A transaction, with what apt said it would do if it was asked.

    Raises NotKnown when apt refuses it, or when there is no room for it.
    """
    if isinstance(facts.simulations, Unknown):
        raise NotKnown(f"simulations: {facts.simulations.reason}", subject="simulations")
    apt = Apt(argv=argv)
    said = facts.simulations.get(apt.key) if isinstance(facts.simulations, dict) else None
    if said is None:
        return apt
    if said.error:
        names = [word for word in argv if word not in INSTALL]
        raise NotKnown(f"apt refuses: {said.error}", subject=" ".join(names), hint=said.hint)
    _room(facts, said)
    return Apt(argv=argv, install=said.install, remove=said.remove)


def _room(facts: Facts, said: Simulation) -> None:
    """Raise NotKnown where packages would not fit: /var holds what is downloaded, / the rest."""
    disks = known(facts.disks, "disks")
    root = disks["/"]
    download, installs = (said.download, "to download"), (said.installs, "to install")
    needs = {"/": [installs], "/var": [download]}
    if disks.get("/var", root).device == root.device:
        needs = {"/": [download, installs]}
    for mount, parts in needs.items():
        need = sum(size for size, _ in parts)
        free = disks[mount].free
        if need > 0 and free < need + RESERVE:
            what = ", ".join(f"{_gib(size)} {what}" for size, what in parts)
            raise NotKnown(
                f"{mount} has {_gib(free)} free, apt needs {_gib(need + RESERVE)}: {what}, "
                f"{_gib(RESERVE)} in reserve",
                subject=mount,
                hint=f"make space on {mount}, for example: apt-get clean",
            )


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
