"""What a site has between its hosts and the world: own CA, proxy, package index. Reads files.

Applied to apt, to uv, and to every systemd unit; taken away again when the inventory no longer
names it.
"""

from __future__ import annotations

from typing import Any

from provision import TOOL
from provision.facts import Facts
from provision.inventory import Site
from provision.plan import Change, Run, Stage
from provision.resources.managed_file import file_change
from provision.want import Want

NAME = "site"
STAGE = Stage.SOURCES
CA = f"/usr/local/share/ca-certificates/{TOOL}-site.crt"
APT = f"/etc/apt/apt.conf.d/53{TOOL}-proxy"
UNITS = f"/etc/systemd/system.conf.d/{TOOL}-proxy.conf"
UV = "/etc/uv/uv.toml"
"""uv ignores the system's CA store unless this file says otherwise; it works in units, too."""


def query(want: Want) -> dict[str, Any]:
    return {"files": [CA, APT, UNITS, UV]}


def plan(want: Want, facts: Facts) -> list[Change]:
    site = want.site
    reread = Run(argv=("systemctl", "daemon-reexec"), timeout=60.0)
    certificates = Run(argv=("update-ca-certificates",), timeout=120.0)
    files = (
        (CA, site.ca_text, "the site's own CA signs what hosts see", certificates),
        (APT, _apt(site), "apt reaches the world through the site's proxy", None),
        (UNITS, _units(site), "services reach the world through the site's proxy", reread),
        (UV, _uv(site), "uv trusts the system's CAs and takes packages from the site", None),
    )
    return [
        change
        for path, content, why, then in files
        if content is not None or path != UV  # uv.toml may be somebody else's
        for change in file_change(
            NAME,
            STAGE,
            facts,
            path=path,
            content=content,
            why=why,
            then=(then,) if then else (),
        )
    ]


def environment(site: Site) -> dict[str, str]:
    """The variables by which programs find the proxy."""
    if site.proxy is None:
        return {}
    return {
        "HTTP_PROXY": site.proxy,
        "HTTPS_PROXY": site.proxy,
        "http_proxy": site.proxy,
        "https_proxy": site.proxy,
        "NO_PROXY": ",".join(site.direct),
        "no_proxy": ",".join(site.direct),
    }


def _apt(site: Site) -> str | None:
    if site.proxy is None:
        return None
    lines = [f'Acquire::{kind}::Proxy "{site.proxy}";' for kind in ("http", "https")]
    lines += [
        f'Acquire::{kind}::Proxy::{host} "DIRECT";'
        for host in site.direct
        for kind in ("http", "https")
    ]
    return f"// {TOOL}\n" + "\n".join(lines) + "\n"


def _units(site: Site) -> str | None:
    pairs = " ".join(f'"{name}={value}"' for name, value in environment(site).items())
    return f"# {TOOL}\n[Manager]\nDefaultEnvironment={pairs}\n" if pairs else None


def _uv(site: Site) -> str | None:
    if site.ca is None and site.index is None:
        return None
    index = f'\n[[index]]\nurl = "{site.index}"\ndefault = true\n' if site.index else ""
    return f"# {TOOL}\nsystem-certs = true\n{index}"
