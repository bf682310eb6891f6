"""The same checks as one shell script: nothing that logs in once can do them faster."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from benchmarks.expected import Expected

DPKG = "dpkg-query --show --showformat"
LOOSE = r"${Package} ${db:Status-Status}\n"
EXACT = r"${Package}=${Version} ${db:Status-Status}\n"
SMI = "nvidia-smi --query-gpu=name,driver_version --format=csv,noheader"


def script(of: Expected) -> str:
    """Prints a line for everything that `answer` expects, as the host has it."""
    return "\n".join(line for line, _ in _lines(of)) + "\n"


def answer(of: Expected) -> str:
    """What the script prints on a host that is right."""
    return "".join(f"{said}\n" for _, said in _lines(of) if said)


def _lines(of: Expected) -> Iterator[tuple[str, str]]:
    """A command, and what it must print; '' where that is nothing."""
    packages = sorted(name for names in of["packages"].values() for name in names)
    exact = [name for name in packages if "=" in name]
    loose = [name for name in packages if "=" not in name]
    for form, wanted in ((f"{DPKG}='{EXACT}'", exact), (f"{DPKG}='{LOOSE}'", loose)):
        names = shlex.join(name.partition("=")[0] for name in wanted)
        yield f"{form} {names} | sort", "\n".join(f"{name} installed" for name in wanted)
    yield "dpkg --audit", ""
    for source in of["sources"]:
        yield f"cat {source['file']}", source["line"]
    paths = [*of["keyrings"], *of["files"]]
    hashes = "\n".join(f"{there['sha256']}  {there['path']}" for there in paths)
    yield f"sha256sum {shlex.join(there['path'] for there in paths)}", hashes
    modes = "\n".join(f"{there['mode'].lstrip('0')} {there['path']}" for there in of["files"])
    yield f"stat --format='%a %n' {shlex.join(there['path'] for there in of['files'])}", modes
    for module in of["modules_absent"]:
        yield f"ls -d /sys/module/{module} 2>/dev/null", ""
    for module in of["modules"]:
        yield f"cat /sys/module/{module['name']}/version", module["version"]
        about = f"license: {module['license']}\nversion: {module['version']}"
        asked = f"modinfo {module['name']} | sed -nE 's/^(version|license): +/\\1: /p' | sort"
        yield asked, about
    for unit in of["units"]:
        states = "systemctl show --property=ActiveState,UnitFileState --value"
        yield f"{states} {unit}", "active\nenabled"
    for tool in (*of["toolkits"], *of["tools"]):
        asked = f"{tool.get('nvcc') or tool['path']} --version"
        yield f"{asked} | grep --only-matching --fixed-strings '{tool['says']}'", tool["says"]
    for environment in of["environments"]:
        yield f"readlink {environment['link']}", environment["target"]
        folders = [there["folder"] for there in environment["distributions"]]
        yield f"cd {environment['site']} && ls -d {shlex.join(folders)}", "\n".join(sorted(folders))
    if of["gpus"]:
        yield SMI, "\n".join(f"{gpu['name']}, {gpu['driver']}" for gpu in of["gpus"])
