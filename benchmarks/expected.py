"""What every side checks of a host: one description, from our want and the host as it stands.

The peers read it as the host's variables. A side may check in its own way, but nothing less.
"""

from __future__ import annotations

import hashlib
import shlex
from typing import Any

from provision import engine, resources
from provision.resources import (
    apt_source,
    compilers,
    driver,
    environment,
    headers,
    persistence,
    reboot,
    toolkits,
    uv,
)
from provision.target import Target

DEADLINE = 10.0
"""Seconds to read a file of the host."""

Expected = dict[str, Any]
"""Packages by purpose; everything else as lists of mappings or names."""


def expected(target: Target, seen: engine.Look) -> Expected:
    """Describe a host that is right."""
    want, facts = target.want, seen.facts
    answers: dict[str, Any] = {
        name: answer.get("value") for name, answer in seen.raw["facts"].items()
    }
    packages = {
        "source": {apt_source.PACKAGE: apt_source.VERSION},
        **{
            resource.NAME: resource.expected(want, facts)
            for resource in (headers, driver, toolkits, compilers)
        },
        "driver_parts": driver.strays(want, facts)[0],
    }
    sources = [
        {"file": source["file"], "line": _read(target, source["file"]).strip(), "uri": uri}
        for uri, sources in answers["apt"]["sources"].items()
        for source in sources
        if source["signed_by"] == apt_source.KEYRING
    ]
    files = [
        *(path for path in resources.query(want)["files"] if answers["files"][path]),
        *(
            f"{environment.ROOT}/{name}/locks/{there['lock'][:12]}.txt"
            for name, there in answers["environments"].items()
        ),
    ]
    return {
        "packages": {purpose: _as_apt(wanted) for purpose, wanted in packages.items()},
        "sources": sources,
        "keyrings": [_keyring(target, sources[0]["uri"])],
        "files": [_file(target, path) for path in files],
        "modules_absent": list(reboot.RIVALS),
        "modules": [_module(target, "nvidia")],
        "units": [persistence.UNIT],
        "toolkits": [
            {"nvcc": f"/usr/local/cuda-{release}/bin/nvcc", "says": f"release {release},"}
            for release in want.stack.system.toolkit
        ],
        "tools": [{"path": uv.path(want), "says": f"uv {want.uv.version} "}],
        "environments": [
            _environment(name, there, uv.path(want))
            for name, there in answers["environments"].items()
        ],
        "gpus": [
            {"name": gpu["name"], "driver": want.stack.system.driver.version}
            for gpu in answers["gpus"]
        ],
    }


def checks(of: Expected) -> int:
    """How many single things are checked.

    A unit counts as two (enabled, active), a loaded module as three (its version in the kernel,
    version and licence on disk), an environment as its release and every distribution, all GPUs
    as two (as many of that name, and the driver that they answer with), and one more is that
    dpkg was not interrupted.
    """
    ones = ("sources", "keyrings", "files", "modules_absent", "toolkits", "tools")
    return (
        sum(len(names) for names in of["packages"].values())
        + sum(len(of[name]) for name in ones)
        + 2 * len(of["units"])
        + 3 * len(of["modules"])
        + sum(1 + len(one["distributions"]) for one in of["environments"])
        + 2 * bool(of["gpus"])
        + 1
    )


def _as_apt(wanted: dict[str, str | None]) -> list[str]:
    return [f"{name}={version}" if version else name for name, version in wanted.items()]


def _keyring(target: Target, uri: str) -> dict[str, str]:
    said = _ask(target, "sha256sum", apt_source.KEYRING)
    return {
        "path": apt_source.KEYRING,
        "sha256": said.split()[0],
        "url": f"{uri}/{apt_source.KEYRING.rpartition('/')[2]}",
    }


def _file(target: Target, path: str) -> dict[str, str]:
    content = _read(target, path)
    return {
        "path": path,
        "content": content,
        "sha256": hashlib.sha256(content.encode()).hexdigest(),
        "mode": _ask(target, "stat", "--format=%a", path).strip().zfill(4),
    }


def _module(target: Target, name: str) -> dict[str, str]:
    return {
        "name": name,
        "version": _read(target, f"/sys/module/{name}/version").strip(),
        "license": _ask(target, "modinfo", "-F", "license", name).strip(),
    }


def _environment(name: str, there: dict[str, Any], tool: str) -> dict[str, Any]:
    minor = ".".join(there["python"].split(".")[:2])
    current = f"{environment.ROOT}/{name}/current"
    return {
        "link": current,
        "target": f"releases/{there['release']}",
        "python": f"{current}/bin/python",
        "uv": tool,
        "site": f"{current}/lib/python{minor}/site-packages",
        "distributions": [
            {
                "requirement": f"{distribution}=={version}",
                "folder": f"{distribution.replace('-', '_')}-{version}.dist-info",
            }
            for distribution, version in there["distributions"].items()
        ],
    }


def _read(target: Target, path: str) -> str:
    return _ask(target, "cat", path)


def _ask(target: Target, *argv: str) -> str:
    said = target.transport.run(argv, b"", deadline=DEADLINE)
    if said.exit:
        raise RuntimeError(f"{target.host.name}: {shlex.join(argv)}: {said.err.strip()}")
    return said.out
