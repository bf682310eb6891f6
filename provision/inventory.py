"""YAML → Inventory: hosts, groups and expected hardware, validated; errors name file and line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from provision.errors import UsageError
from provision.stack import Repository

FILE = Path(__file__).parent.parent / "inventory.yaml"
VARIABLE = "FIRSTLIGHT_INVENTORY"
"""Environment variable that names another inventory file."""

FAR = frozenset({"address", "user", "port", "host_key", "ssh_config"})
"""Fields of a host that is reached over SSH."""
OWN = frozenset({"name", "where"})
"""Fields of a host that its place in the file says."""
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]


class Entry(BaseModel):
    """A mapping of the inventory: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Gpus(Entry):
    """The GPUs that the host is expected to have."""

    count: int = Field(ge=1, le=64)
    model: str


class Site(Entry):
    """What stands between a site's hosts and the world."""

    ca: Path | None = None
    """PEM file of the site's own CA, beside the inventory unless absolute."""
    proxy: Annotated[str, Field(pattern=r"^https?://[^\s\"';@%]+$")] | None = None
    """Without a password: it would stand in files that everybody can read."""
    direct: tuple[Annotated[str, Field(pattern=r"^[A-Za-z0-9.*:-]+$")], ...] = (
        "localhost",
        "127.0.0.1",
    )
    """Hosts that are reached without the proxy."""
    index: Annotated[str, Field(pattern=r"^https?://[^\s\"']+$")] | None = None
    """A simple package index instead of uv's default."""

    feed: bool = False
    """The hosts reach no package index: this computer fetches what the locks name, and uploads."""

    @property
    def ca_text(self) -> str | None:
        """The CA's certificates, None where the site has no CA of its own."""
        return self.ca.read_text(encoding="ascii") if self.ca else None

    @field_validator("ca")
    @classmethod
    def _is_pem(cls, path: Path | None) -> Path | None:
        if path is not None and "-----BEGIN CERTIFICATE-----" not in _text(path):
            raise ValueError("not a PEM file with certificates")
        return path


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"can't be read: {error}") from error


class Lab(Entry):
    """A lab host: made on this computer, with simulated hardware."""

    suite: Literal["bookworm", "trixie"] | None = None
    """The Debian below; without it bookworm, or what suits the flavour."""
    flavour: Literal["debian", "ubuntu2204", "ubuntu2404"] = "debian"
    """Debian itself, or Debian dressed as Ubuntu."""
    hardware: Name = "rtxpro6000-8x"
    layer: Name | None = None
    """A frozen host that it starts as."""
    memory_gib: int | None = Field(default=None, ge=1)


class Host(Entry):
    """One host: where it is, what it should become, what it should have."""

    name: Name
    where: str
    """File and line of its entry, for messages."""
    address: Annotated[str, Field(pattern=r"^[A-Za-z0-9:][A-Za-z0-9._:%-]*$")]
    user: Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_-]*$")] | None = None
    port: int | None = Field(default=None, ge=1, le=65535)
    connection: Literal["ssh", "local"] = "ssh"
    """`local` is this computer itself."""
    host_key: Annotated[str, Field(pattern=r"^SHA256:[A-Za-z0-9+/]{43}$")] | None = None
    """Fingerprint of the host's SSH key, as `ssh-keygen -lf` prints it."""
    ssh_config: Path | None = None
    """An OpenSSH client configuration to read instead of the user's own."""
    stack: Name
    gpus: Gpus | None = None
    repository: Repository | None = None
    """Instead of NVIDIA's own, such as a site's mirror with a key of its own."""
    site: Site = Site()
    lab: Lab | None = None


class Inventory(Entry):
    """All hosts that the file names."""

    file: str
    default: Name
    hosts: dict[Name, Host]
    groups: dict[Name, tuple[Name, ...]] = {}

    def select(self, hosts: Sequence[str] = (), groups: Sequence[str] = ()) -> list[Host]:
        """The hosts asked for, each once, in the order asked; the default host if none is.

        Raises UsageError for a name that the inventory does not hold.
        """
        names = list(hosts)
        for group in groups:
            if group not in self.groups:
                raise UsageError(
                    f"{self.file}: there is no group {group!r}",
                    hint=f"groups there: {', '.join(self.groups) or 'none'}",
                )
            if not self.groups[group]:
                raise UsageError(f"{self.file}: group {group!r} is empty")
            names.extend(self.groups[group])
        for name in names:
            if name not in self.hosts:
                raise UsageError(
                    f"{self.file}: there is no host {name!r}",
                    hint=f"hosts there: {', '.join(self.hosts)}",
                )
        return [self.hosts[name] for name in dict.fromkeys(names or [self.default])]


def load(path: Path | None = None) -> Inventory:
    """Read the inventory: `path`, else the file that FIRSTLIGHT_INVENTORY names, else ours.

    Raises UsageError naming file, line and field.
    """
    path = path or Path(os.environ.get(VARIABLE) or FILE)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path}: can't be read: {error}", hint=f"{VARIABLE} names the inventory"
        ) from error
    return parse(text, path.name, path.parent)


def parse(text: str, file: str, folder: Path | None = None) -> Inventory:
    """Read an inventory's text; `file` names it in messages, paths are relative to `folder`."""
    try:
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        at = f":{mark.line + 1}" if mark else ""
        raise UsageError(f"{file}{at}: {getattr(error, 'problem', error)}") from error
    except ValueError as error:
        raise UsageError(f"{file}: {error}", hint="put it in quotes if it is text") from error
    lines = _lines(tree, (), file)
    if not isinstance(data, dict) or not isinstance(data.get("hosts"), dict):
        raise UsageError(f"{file}: hosts: expected a mapping of host names")
    if "file" in data:
        raise UsageError(f"{file}:{lines[('file',)]}: file: unknown field")
    defaults = data.pop("defaults", {}) or {}
    if not isinstance(defaults, dict):
        raise UsageError(f"{file}:{lines[('defaults',)]}: defaults: expected a mapping")
    for setting in defaults:
        if setting not in Host.model_fields or setting in OWN:
            raise UsageError(
                f"{file}:{lines[('defaults', setting)]}: defaults.{setting}: unknown field",
                hint=f"fields there: {_fields(('hosts', ''))}",
            )
    hosts: dict[str, Any] = {}
    for name, given in data["hosts"].items():
        line = lines.get(("hosts", name)) or lines.get(("hosts", str(name)), lines[("hosts",)])
        where = f"{file}:{line}"
        if not isinstance(name, str):
            raise UsageError(f"{where}: hosts: {name!r} is no text", hint="put it in quotes")
        if not isinstance(given, dict):
            raise UsageError(f"{where}: hosts.{name}: expected a mapping, got {given!r}")
        for setting in OWN & given.keys():
            raise UsageError(f"{where}: hosts.{name}.{setting}: unknown field")
        if given.get("connection") == "local" and (far := FAR & given.keys()):
            raise UsageError(
                f"{where}: hosts.{name}.{min(far)}: a host with `connection: local` has none",
                hint="it is this computer itself; for another one leave `connection` out",
            )
        entry = dict(given)  # an alias shares its mapping with others
        address = lines.get(("hosts", name, "address"))
        entry.update(name=name, where=f"{file}:{address}" if address else where)
        entry.setdefault("address", name)
        for setting, value in defaults.items():
            entry.setdefault(setting, value)
        _locate(entry, folder or Path())
        hosts[name] = entry
    try:
        inventory = Inventory.model_validate({**data, "hosts": hosts, "file": file})
    except ValidationError as error:
        raise _explained(error, file, lines) from error
    _check_names(inventory, file, lines)
    return inventory


def _locate(entry: dict[str, Any], folder: Path) -> None:
    """Paths that are not absolute lie beside the inventory."""
    site = entry.get("site")
    for mapping, name in ((entry, "ssh_config"), (site, "ca")):
        if isinstance(mapping, dict) and isinstance(mapping.get(name), str):
            mapping[name] = folder / Path(mapping[name]).expanduser()


def _check_names(inventory: Inventory, file: str, lines: dict[tuple[Any, ...], int]) -> None:
    named: list[tuple[tuple[Any, ...], str]] = [(("default",), inventory.default)]
    named += [
        (("groups", group, at), name)
        for group, names in inventory.groups.items()
        for at, name in enumerate(names)
    ]
    for path, name in named:
        if name not in inventory.hosts:
            field = ".".join(str(part) for part in path)
            raise UsageError(
                f"{file}:{lines.get(path, 1)}: {field}: there is no host {name!r}",
                hint=f"hosts there: {', '.join(inventory.hosts)}",
            )


def _explained(error: ValidationError, file: str, lines: dict[tuple[Any, ...], int]) -> UsageError:
    every = error.errors()
    # A misspelt field is also a missing one: the former says more.
    first = next((one for one in every if one["type"] == "extra_forbidden"), every[0])
    path = tuple(part for part in first["loc"] if part != "[key]")
    field = ".".join(str(part) for part in path)
    known = next((lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in lines), 1)
    if first["type"] == "extra_forbidden":
        return UsageError(
            f"{file}:{known}: {field}: unknown field", hint=f"fields there: {_fields(path)}"
        )
    got = f", got {first['input']!r}" if first["type"] != "missing" else ""
    return UsageError(f"{file}:{known}: {field}: {first['msg']}{got}")


def _fields(path: tuple[Any, ...]) -> str:
    model: type[BaseModel] = Inventory
    if path[0] == "hosts":
        nested: dict[Any, type[BaseModel]] = {
            "gpus": Gpus,
            "lab": Lab,
            "repository": Repository,
            "site": Site,
        }
        model = nested.get(path[2], Host) if len(path) > 3 else Host
    return ", ".join(name for name in model.model_fields if name not in ("name", "where", "file"))


def _lines(node: yaml.Node | None, path: tuple[Any, ...], file: str) -> dict[tuple[Any, ...], int]:
    """Path of every key and item → its line, counted from 1.

    Raises UsageError for a key that stands twice, and for a mapping that holds itself.
    """
    found: dict[tuple[Any, ...], int] = {}
    if len(path) > 20:
        raise UsageError(f"{file}: {'.'.join(map(str, path[:3]))}: an alias that holds itself")
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*path, key.value)
            line = key.start_mark.line + 1
            if inner in found:
                name = ".".join(map(str, inner))
                raise UsageError(
                    f"{file}:{line}: {name}: stands twice, first in line {found[inner]}"
                )
            found[inner] = line
            found.update(_lines(value, inner, file))
    elif isinstance(node, yaml.SequenceNode):
        for at, value in enumerate(node.value):
            inner = (*path, at)
            found[inner] = value.start_mark.line + 1
            found.update(_lines(value, inner, file))
    return found
