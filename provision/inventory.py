"""YAML → Inventory: hosts, groups and expected hardware, validated; errors name file and line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import IPv6Address
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
)

from provision import marked_yaml
from provision.errors import UsageError, dotted, shown
from provision.marked_yaml import Lines
from provision.mistakes import Mistake, first, unknown_field
from provision.stack import Public, Repository

FILE = Path(__file__).parent.parent / "inventory.yaml"
VARIABLE = "FIRSTLIGHT_INVENTORY"
"""Environment variable that names another inventory file."""

FAR = frozenset({"address", "user", "port", "host_key", "ssh_config"})
"""Fields of a host that is reached over SSH."""
OWN = frozenset({"name", "where"})
"""Fields of a host that its place in the file says."""
Proxy = Annotated[str, Public, Field(pattern=r"^https?://[A-Za-z0-9._:\[\]-]+/?$")]
Index = Annotated[str, Public, Field(pattern=r"^https?://[A-Za-z0-9._~:/\[\]@+,%-]+$")]
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
    proxy: Proxy | None = None
    direct: tuple[Annotated[str, Field(pattern=r"^[A-Za-z0-9.*:-]+$")], ...] = (
        "localhost",
        "127.0.0.1",
    )
    """Hosts that are reached without the proxy."""
    index: Index | None = None
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
        text = "" if path is None else _text(path)
        if path is not None and "-----BEGIN CERTIFICATE-----" not in text:
            raise ValueError("not a PEM file with certificates")
        if "PRIVATE KEY-----" in text:
            raise ValueError("holds a private key, which hosts have no business to see")
        return path


def _one_host(address: str) -> str:
    if ":" in address or "%" in address:
        try:
            IPv6Address(address)
        except ValueError as error:
            raise ValueError(
                "not a name or an IP address (`port` is a field of its own)"
            ) from error
    return address


def _printable(path: Path) -> Path:
    if not str(path).isprintable():
        raise ValueError("has characters that no file's name should have")
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
    address: Annotated[
        str, Field(pattern=r"^[A-Za-z0-9:][A-Za-z0-9._:%-]*$"), AfterValidator(_one_host)
    ]
    user: Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_-]*$")] | None = None
    port: int | None = Field(default=None, ge=1, le=65535)
    connection: Literal["ssh", "local"] = "ssh"
    """`local` is this computer itself."""
    host_key: Annotated[str, Field(pattern=r"^SHA256:[A-Za-z0-9+/]{43}$")] | None = None
    """Fingerprint of the host's SSH key, as `ssh-keygen -lf` prints it."""
    ssh_config: Annotated[Path, AfterValidator(_printable)] | None = None
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
    builder: Name | None = None
    """The host that builds wheels; without it the default one."""
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


def file() -> Path:
    """The inventory in use: what FIRSTLIGHT_INVENTORY names, else ours."""
    return Path(os.environ.get(VARIABLE) or FILE)


def load(path: Path | None = None) -> Inventory:
    """Read the inventory: `path`, else the file that FIRSTLIGHT_INVENTORY names, else ours.

    Raises UsageError naming file, line and field.
    """
    path = path or file()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path}: can't be read: {error}", hint=f"{VARIABLE} names the inventory"
        ) from error
    return parse(text, path.name, path.parent)


def parse(text: str, file: str, folder: Path | None = None) -> Inventory:
    """Read an inventory's text; `file` names it in messages, paths are relative to `folder`."""
    data, lines = marked_yaml.read(text, file)
    if not isinstance(data, dict) or not isinstance(data.get("hosts"), dict):
        raise UsageError(f"{file}:{lines[('hosts',)]}: hosts: expected a mapping of host names")
    if "file" in data:
        raise UsageError(f"{file}:{lines[('file',)]}: file: unknown field")
    defaults = data.pop("defaults", {}) or {}
    if not isinstance(defaults, dict):
        raise UsageError(f"{file}:{lines[('defaults',)]}: defaults: expected a mapping")
    for setting in defaults:
        if setting not in Host.model_fields or setting in OWN:
            there = [field for field in Host.model_fields if field not in OWN]
            raise _told(unknown_field(("defaults", setting), there), file, lines)
    hosts: dict[str, Any] = {}
    for name, given in data["hosts"].items():
        where = f"{file}:{lines[('hosts', str(name))]}"
        if not isinstance(name, str):
            raise UsageError(f"{where}: hosts: {shown(name)} is no text", hint="put it in quotes")
        path = dotted(("hosts", name))
        if not isinstance(given, dict):
            raise UsageError(f"{where}: {path}: expected a mapping, got {shown(given)}")
        for setting in OWN & given.keys():
            raise UsageError(f"{where}: {path}.{setting}: unknown field")
        if given.get("connection") == "local" and (far := FAR & given.keys()):
            raise UsageError(
                f"{where}: {path}.{min(far)}: a host with `connection: local` has none",
                hint="it is this computer itself; for another one leave `connection` out",
            )
        entry = dict(given)  # an alias shares its mapping with others
        entry.update(name=name, where=f"{file}:{lines[('hosts', name, 'address')]}")
        entry.setdefault("address", name)
        for setting, value in defaults.items():
            entry.setdefault(setting, value)
        _locate(entry, folder or Path())
        hosts[name] = entry
    try:
        inventory = Inventory.model_validate({**data, "hosts": hosts, "file": file})
    except ValidationError as error:
        raise _told(first(error, Inventory, {*OWN, "file"}), file, lines) from error
    _check_names(inventory, file, lines)
    return inventory


def _locate(entry: dict[str, Any], folder: Path) -> None:
    """Paths that are not absolute lie beside the inventory."""
    site = entry.get("site")
    for mapping, name in ((entry, "ssh_config"), (site, "ca")):
        if isinstance(mapping, dict) and isinstance(mapping.get(name), str):
            with suppress(RuntimeError):  # `~user` of nobody: a folder of this name, then
                mapping[name] = Path(mapping[name]).expanduser()
            mapping[name] = folder / mapping[name]


def _check_names(inventory: Inventory, file: str, lines: Lines) -> None:
    named: list[tuple[tuple[Any, ...], str]] = [(("default",), inventory.default)]
    named += [(("builder",), inventory.builder)] if inventory.builder else []
    named += [
        (("groups", group, at), name)
        for group, names in inventory.groups.items()
        for at, name in enumerate(names)
    ]
    for path, name in named:
        if name not in inventory.hosts:
            raise UsageError(
                f"{file}:{lines[path]}: {dotted(path)}: there is no host {name!r}",
                hint=f"hosts there: {', '.join(inventory.hosts)}",
            )


def _told(mistake: Mistake, file: str, lines: Lines) -> UsageError:
    return UsageError(f"{file}:{lines[mistake.path]}: {mistake}", hint=mistake.hint)
