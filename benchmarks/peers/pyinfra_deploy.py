"""What benchmarks/expected.py describes, in pyinfra's own words.

Facts of a host are read once and kept by pyinfra; what is no state of its own is asked with the
Command fact.
"""

from io import StringIO
from shlex import quote

from pyinfra import host
from pyinfra.api.exceptions import DeployError
from pyinfra.facts.server import Command
from pyinfra.operations import apt, files, server, systemd


def said(command: str) -> str:
    """A command's output."""
    return host.get_fact(Command, command) or ""


def hold(what: str, *, true: bool) -> None:
    """Stop where the host is not as wanted and no operation could mend it."""
    if not true:
        raise DeployError(f"{what}: not as wanted")


data = host.data

hold("dpkg was not interrupted", true=not said("dpkg --audit"))

for keyring in data.keyrings:
    files.download(
        name="The keyring that may sign",
        src=keyring["url"],
        dest=keyring["path"],
        sha256sum=keyring["sha256"],
        mode="644",
    )
for source in data.sources:
    apt.repo(
        name="The vendor's repository",
        src=source["line"],
        filename=source["file"].rpartition("/")[2].removesuffix(".list"),
    )
for file in data.files:
    files.put(
        name=f"{file['path']}",
        src=StringIO(file["content"]),
        dest=file["path"],
        mode=file["mode"],
    )
for purpose, packages in data.packages.items():
    apt.packages(name=f"Packages: {purpose}", packages=packages, no_recommends=True)

modules = said("ls /sys/module").split()
for module in data.modules_absent:
    hold(module, true=module not in modules)
for module in data.modules:
    loaded = said(f"cat /sys/module/{module['name']}/version")
    hold(f"{module['name']} in the kernel", true=loaded == module["version"])
    built = dict(
        line.split(":", 1) for line in said(f"modinfo {module['name']}").splitlines() if ":" in line
    )
    there = (built["version"].strip(), built["license"].strip())
    hold(f"{module['name']} on disk", true=there == (module["version"], module["license"]))

for unit in data.units:
    systemd.service(name=unit, service=unit, running=True, enabled=True)
for toolkit in data.toolkits:
    hold(toolkit["nvcc"], true=toolkit["says"] in said(f"{toolkit['nvcc']} --version"))
for tool in data.tools:
    hold(tool["path"], true=tool["says"] in said(f"{tool['path']} --version"))

for environment in data.environments:
    files.link(
        name="The environment's release",
        path=environment["link"],
        target=environment["target"],
    )
    installed = said(f"ls {environment['site']}").split()
    for distribution in environment["distributions"]:
        if distribution["folder"] not in installed:
            server.shell(
                name=distribution["requirement"],
                commands=f"{environment['uv']} pip install --python {environment['python']} "
                f"{quote(distribution['requirement'])}",
            )

gpus = said("nvidia-smi --query-gpu=name,driver_version --format=csv,noheader")
hold("GPUs", true=gpus.splitlines() == [f"{gpu['name']}, {gpu['driver']}" for gpu in data.gpus])
