"""Bad inputs, each through the layer that meets it: code, what, where, what was expected, a hint.

A traceback is any other exception than ours, and fails the test by itself.
"""

import sys
from types import SimpleNamespace

import pytest
from layers import THERE, Meet
from samples import TIMEOUT, probed

from provision.resources import nouveau
from provision.transport.trust import Trust

HOST = "default: a\nhosts:\n  a:\n    stack: lab\n    "
"""An inventory up to the line that is wrong, its fifth."""

SAYS_WHAT_IS_EXPECTED = ""
"""No hint is needed: the message itself names what would be right."""
ITS_OWN_WORDS = ""
"""No hint is needed: it repeats what another program said of its own input."""


@pytest.fixture
def meet(tmp_path, request, monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: False))
    return Meet(tmp_path, request.getfixturevalue)


MINIMAL = "hostname h\\nport 22\\nuser root\\n"
INDEX = "inventory.yaml:5: "

CASES = {
    # --- the inventory -----------------------------------------------------------------------
    "an inventory that is not there": (
        ("file", None),
        (2, ["inventory.yaml: can't be read", "No such file"], "FIRSTLIGHT_INVENTORY"),
    ),
    "an inventory that is no text": (
        ("file", b"\xff\xfe\x00"),
        (2, ["inventory.yaml: can't be read", "codec can't decode"], "FIRSTLIGHT_INVENTORY"),
    ),
    "YAML that is cut short": (
        ("inventory", "default: a\nhosts: {a: {\n"),
        (2, ["inventory.yaml:3: ", "expected"], SAYS_WHAT_IS_EXPECTED),
    ),
    "a list for hosts": (
        ("inventory", "default: a\nhosts: [a]\n"),
        (2, ["inventory.yaml:2: hosts: expected a mapping"], SAYS_WHAT_IS_EXPECTED),
    ),
    "a host that is a word": (
        ("inventory", "default: a\nhosts:\n  a: lab\n"),
        (2, ["inventory.yaml:3: hosts.a: expected a mapping, got 'lab'"], SAYS_WHAT_IS_EXPECTED),
    ),
    "a host that stands twice": (
        ("inventory", f"{THERE}  a: {{stack: lab}}\n"),
        (2, ["inventory.yaml:4: hosts.a: stands twice, first in line 3"], SAYS_WHAT_IS_EXPECTED),
    ),
    "a date for a host": (
        ("inventory", "default: 2026-13-45\nhosts:\n  a: {stack: lab}\n"),
        (2, ["inventory.yaml:1: '2026-13-45' is no timestamp"], "in quotes"),
    ),
    "a field that is misspelt": (
        ("inventory", f"{HOST}adress: x\n"),
        (2, [INDEX, "hosts.a.adress: unknown field"], "address, user, port"),
    ),
    "a site's field that is misspelt": (
        ("inventory", f"{HOST}site: {{porxy: x}}\n"),
        (2, [INDEX, "hosts.a.site.porxy: unknown field"], "ca, proxy, direct, index"),
    ),
    "no stack": (
        ("inventory", "default: a\nhosts:\n  a: {user: root}\n"),
        (2, ["inventory.yaml:3: hosts.a.stack: Field required"], SAYS_WHAT_IS_EXPECTED),
    ),
    "a port that is a word": (
        ("inventory", f"{HOST}port: ssh\n"),
        (2, [INDEX, "hosts.a.port", "integer", "got 'ssh'"], SAYS_WHAT_IS_EXPECTED),
    ),
    "a port that there is not": (
        ("inventory", f"{HOST}port: 99999\n"),
        (2, [INDEX, "hosts.a.port", "65535", "got 99999"], SAYS_WHAT_IS_EXPECTED),
    ),
    "an address with a user in front": (
        ("inventory", f"{HOST}address: root@gpu01\n"),
        (2, [INDEX, "hosts.a.address", "pattern", "got 'root@gpu01'"], SAYS_WHAT_IS_EXPECTED),
    ),
    "an address that ssh takes for an option": (
        ("inventory", f"{HOST}address: -oProxyCommand=x\n"),
        (2, [INDEX, "hosts.a.address", "pattern", "'-oProxyCommand=x'"], SAYS_WHAT_IS_EXPECTED),
    ),
    "no GPUs at all": (
        ("inventory", f"{HOST}gpus: {{count: 0, model: x}}\n"),
        (2, [INDEX, "hosts.a.gpus.count", "greater than or equal to 1"], SAYS_WHAT_IS_EXPECTED),
    ),
    "a fingerprint of another kind": (
        ("inventory", f"{HOST}host_key: 'MD5:aa:bb'\n"),
        (2, [INDEX, "hosts.a.host_key", "^SHA256:", "got 'MD5:aa:bb'"], SAYS_WHAT_IS_EXPECTED),
    ),
    "a connection that there is not": (
        ("inventory", f"{HOST}connection: telnet\n"),
        (2, [INDEX, "hosts.a.connection", "'ssh' or 'local'"], SAYS_WHAT_IS_EXPECTED),
    ),
    "a proxy without its scheme": (
        ("inventory", f"{HOST}site: {{proxy: 'proxy:3128'}}\n"),
        (2, [INDEX, "hosts.a.site.proxy", "^https?://", "'proxy:3128'"], SAYS_WHAT_IS_EXPECTED),
    ),
    "a CA that is not there": (
        ("inventory", f"{HOST}site: {{ca: none.pem}}\n"),
        (2, [INDEX, "hosts.a.site.ca", "can't be read", "none.pem"], SAYS_WHAT_IS_EXPECTED),
    ),
    "a repository with another key's name": (
        ("inventory", f"{HOST}repository: {{url: 'http://x', fingerprint: abc}}\n"),
        (2, [INDEX, "hosts.a.repository.fingerprint", "[0-9A-F]{40}"], SAYS_WHAT_IS_EXPECTED),
    ),
    "a group of a host that there is not": (
        ("inventory", f"{THERE}groups:\n  all: [a, z]\n"),
        (2, ["inventory.yaml:5: groups.all.1: there is no host 'z'"], "hosts there: a"),
    ),
    "a default that there is not": (
        ("inventory", "default: z\nhosts:\n  a: {stack: lab}\n"),
        (2, ["inventory.yaml:1: default: there is no host 'z'"], "hosts there: a"),
    ),
    "a host that is not in the inventory": (
        ("selected", "z"),
        (2, ["inventory.yaml: there is no host 'z'"], "hosts there: a"),
    ),
    "a host that is no lab host": (
        ("lab",),
        (2, ["inventory.yaml:3: h is no lab host"], "`lab` entry"),
    ),
    # --- stacks ------------------------------------------------------------------------------
    "TOML that is cut short": (
        ("stack", "lab.toml", "toolkits = [", "toolkits = [["),
        (2, ["lab.toml: ", "line"], ITS_OWN_WORDS),
    ),
    "a system that there is not": (
        ("stack", "lab.toml", "r590-cuda131-cuda128", "r600"),
        (2, ["lab.toml: system: there is no file r600.toml beside it"], SAYS_WHAT_IS_EXPECTED),
    ),
    "a toolkit that the system lacks": (
        ("stack", "lab.toml", '"12.8"', '"12.9"'),
        (2, ["lab.toml: toolkits: ", "has 13.1, 12.8, not '12.9'"], SAYS_WHAT_IS_EXPECTED),
    ),
    "a key of a stack that is misspelt": (
        ("stack", "lab.toml", "date =", "dat ="),
        (2, ["lab.toml: date: Field required"], SAYS_WHAT_IS_EXPECTED),
    ),
    "a requirement that is none": (
        ("stack", "lab.toml", "numpy<2.3", "numpy<<2.3"),
        (2, ["lab.toml: environment.main.requirements.1: ", "not a requirement"], ITS_OWN_WORDS),
    ),
    "a range of Python that is none": (
        ("stack", "lab.toml", '">=3.11,<3.14"', '"3.11"'),
        (2, ["lab.toml: environment.main.python", "such as '>=3.11,<3.14'"], SAYS_WHAT_IS_EXPECTED),
    ),
    "a driver's version with a shell's words": (
        ("stack", "r590-cuda131-cuda128.toml", '"590.48.01"', '"590; reboot"'),
        (2, ["r590-cuda131-cuda128.toml: driver.version: ", "pattern"], SAYS_WHAT_IS_EXPECTED),
    ),
    "a lock that is missing": (
        ("stack", "lab.toml", "", ""),
        (2, ["stack lab: environment main has no lock lab.main.txt"], "invoke lock --stack lab"),
    ),
    # --- options and plan files --------------------------------------------------------------
    "a host of the command line that there is not": (
        ("invoke", "verify", "--host", "z"),
        (2, ["error: inventory.yaml: there is no host 'z'"], "hosts there: a"),
    ),
    "a group of the command line that there is not": (
        ("invoke", "plan", "--group", "z"),
        (2, ["error: inventory.yaml: there is no group 'z'"], "groups there: none"),
    ),
    "a plan file that there is not": (
        ("invoke", "apply", "none.json"),
        (2, ["none.json: can't be read as a plan", "No such file"], "invoke plan --output"),
    ),
    "an option for a plan file": (
        ("invoke", "apply", "--json"),
        (2, ["apply takes a plan file"], "invoke --help apply"),
    ),
    "an option that is misspelt": (
        ("invoke", "verify", "--hots", "a"),
        (1, ["No idea what '--hots' is!"], ITS_OWN_WORDS),
    ),
    "a task that there is not": (
        ("invoke", "verfy"),
        (1, ["No idea what 'verfy' is!"], ITS_OWN_WORDS),
    ),
    # --- addresses and host keys -------------------------------------------------------------
    "an SSH configuration that ssh refuses": (
        ("address", 'echo "config line 1: Bad option" >&2; exit 255'),
        (2, ["inventory.yaml:3: ssh -G gpu01: config line 1: Bad option"], ITS_OWN_WORDS),
    ),
    "a jump in circles": (
        ("address", f'printf "{MINIMAL}proxyjump gpu01\\n"'),
        (2, ["inventory.yaml:3: ProxyJump goes in circles at gpu01"], SAYS_WHAT_IS_EXPECTED),
    ),
    "a host key that is not known": (
        ("login", {"known": None}),
        (1, ["h: the host key of 127.0.0.1 is not known: ssh-ed25519 SHA256:"], "--accept-new"),
    ),
    "a host key that has changed": (
        ("login", {"known": "other"}),
        (1, ["h: the host key of 127.0.0.1 has CHANGED", "known is SHA256:"], "ssh-keygen -R"),
    ),
    "another host key than the inventory's": (
        ("login", {"known": None, "trust": Trust(fingerprint="SHA256:" + "A" * 43)}),
        (1, ["h: 127.0.0.1 offers the host key SHA256:", "the inventory states"], "`host_key`"),
    ),
    # --- keys and sudo -----------------------------------------------------------------------
    "a key that the host does not want": (
        ("login", {"offer": "other"}),
        (1, ["h: root@127.0.0.1 refuses us"], "/other; "),
    ),
    "no key": (
        ("login", {"identities": ()}),
        (1, ["h: root@127.0.0.1 refuses us"], "no key: there is none"),
    ),
    "a key with a passphrase and nobody to ask": (
        ("encrypted",),
        (1, ["h: root@127.0.0.1 refuses us"], "has a passphrase: ssh-add "),
    ),
    "a sudo that asks and nobody answers": (
        ("sudo",),
        (1, ["h: sudo asks for a password, and nobody is here"], "FIRSTLIGHT_SUDO_PASSWORD"),
    ),
    "a wrong password": (
        ("sudo", "guess"),
        (1, ["h: sudo refuses the password of ops"], "sudo -k; sudo true"),
    ),
    # --- what a host says --------------------------------------------------------------------
    "a login script that prints": (
        ("says", "Welcome to h!"),
        (1, ["h: answered 'Welcome to h!' instead of JSON"], "login script"),
    ),
    "an answer that is no mapping": (
        ("says", "[]"),
        (1, ["h: answered '[]', expected a JSON mapping"], SAYS_WHAT_IS_EXPECTED),
    ),
    "facts of another version": (
        ("says", '{"schema": 2, "facts": {}}'),
        (1, ["facts have schema 2, expected 1"], "invoke facts --json"),
    ),
    "a run that dies": (
        ("says", probed({"files": {nouveau.PATH: None}}), ['{"event": "lost", "run": "r1"}']),
        (1, ["h: the run on the host died without an end"], "/var/log/firstlight/r1.log"),
    ),
    # --- what a host is ----------------------------------------------------------------------
    "a distribution that the stack does not know": (
        ("host", {"os": {"id": "plan9", "name": "Plan 9"}}),
        (1, ["h: preflight:plan9: stack lab knows no driver packages for Plan 9"], ""),
    ),
    "a glibc that nvcc can't read": (
        ("host", {"os": {"libc": "glibc 2.41"}}),
        (
            1,
            ["h: preflight:CUDA 12.8: nvcc 12.8 reads", "the host has glibc 2.41"],
            "choose a stack",
        ),
    ),
    "a container": (
        ("host", {"os": {"systemd": False}}),
        (1, ["h: preflight:systemd: no systemd is running here"], "from the host that it runs on"),
    ),
    "Secure Boot without the key": (
        ("host", {"secure_boot": {"enabled": True, "enrolled": False}}),
        (1, ["h: preflight:secure boot: ", "is not enrolled"], "mokutil --import"),
    ),
    "a driver of a .run file": (
        ("host", {"driver": {"runfile": "/usr/bin/nvidia-uninstall"}}),
        (1, ["h: preflight:driver: ", "/usr/bin/nvidia-uninstall is there"], "--silent"),
    ),
    "too little room": (
        (
            "host",
            {"disks": {"/": {"free": 2**30}}},
            {"dpkg": {"packages": {"cuda-toolkit-13-1": None}}},
        ),
        (1, ["h: preflight:/: / has 1.0 GiB free, 20 GiB are needed"], "apt-get clean"),
    ),
    "a host without a GPU": (
        ("host", {"pci": []}),
        (1, ["h: driver:pci: no NVIDIA device on the PCI bus"], "seated"),
    ),
    "a version that no source has": (
        ("unoffered", "nvidia-open"),
        (1, ["h: driver:nvidia-open: nvidia-open 590.48.01-1 is not in any"], "no version of it"),
    ),
    "a Python that the lock is not for": (
        ("host", {"os": {"python": {"version": "3.14.0"}}}),
        (
            1,
            ["h: preflight:environment main: ", "for Python >=3.11,<3.14", "is 3.14.0"],
            "invoke lock --stack lab",
        ),
    ),
}


@pytest.mark.parametrize("case", CASES, ids=CASES)
def test_a_bad_input_is_told_with_its_place_and_what_to_do(meet, case):
    (layer, *given), (code, words, hint) = CASES[case]
    named = given.pop() if layer == "login" else {}
    exit_code, what, said = getattr(meet, layer)(*given, **named)
    assert [word for word in words if word not in what] == []
    assert exit_code == code
    assert hint in said
    assert bool(hint) is bool(said)


UNKNOWN = ["os", "dpkg", "apt", "files", "kernel", "driver", "pci", "boot", "units", "uv"]


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_could_not_be_found_out_is_told_and_nothing_is_done(meet, name):
    code, what, _ = meet.host(**{name: TIMEOUT})
    assert code == 1
    assert TIMEOUT["reason"] in what
