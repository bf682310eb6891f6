"""What hosts give: logins that fail, answers that are wrong, and hosts that can't be mended.

Each through the layer that meets it: code, what, which host, what to do.
"""

import json

import pytest
from layers import ITS_OWN_WORDS, SAYS_WHAT_IS_EXPECTED, told
from samples import CHANGE, END, START, TIMEOUT, events, probed

from provision.resources import nouveau
from provision.transport.trust import Trust

MINIMAL = "hostname h\\nport 22\\nuser root\\n"
LACKING = probed({"files": {nouveau.PATH: None}})
"""A host to which a round is sent."""

CASES = {
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
        (
            1,
            ["h: preflight:/: / has 1.0 GiB free, 20 GiB are needed: 20 for packages"],
            "apt-get clean",
        ),
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
def test_a_bad_host_is_told_by_name_with_what_to_do(meet, case):
    told(meet, *CASES[case])


UNKNOWN = ["os", "dpkg", "apt", "files", "kernel", "driver", "pci", "boot", "units", "uv"]


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_could_not_be_found_out_is_told_and_nothing_is_done(meet, name):
    code, what, _ = meet.host(**{name: TIMEOUT})
    assert code == 1
    assert TIMEOUT["reason"] in what


def said(**answers):
    """A probe whose collectors answer so."""
    return json.dumps({"schema": 1, "facts": json.loads(LACKING)["facts"] | answers})


def value(name, **fields):
    """A collector's answer, some of whose fields are something else."""
    there = json.loads(LACKING)["facts"][name]["value"]
    return {name: {"status": "ok", "value": there | fields}}


FACTS = {
    "no facts at all": ("{}", "facts have schema None, expected 1"),
    "facts that are a list": ('{"schema": 1, "facts": []}', "facts: expected a mapping of coll"),
    "a collector that is a word": (said(dpkg="x"), "facts: dpkg: expected a mapping, got 'x'"),
    "a collector without its value": (said(boot={"status": "ok"}), "facts: boot: Input should be"),
    "a number that is a word": (
        said(**value("memory", total="much")),
        "facts: memory.total: Input should be a valid integer",
    ),
    "a package that is an option": (
        said(**value("dpkg", packages={"--purge": None})),
        "facts: dpkg.packages.--purge.[key]: String should match pattern",
    ),
    "a key with an escape": (
        said(**value("dpkg", packages={"\x1b[2J": None})),
        "facts: dpkg.packages.'\\x1b[2J'.[key]: String should match pattern",
    ),
    "a clock without an end": (
        said(**value("clock", now=1e300)),
        "facts: clock.now: Input should be less than 1099511627776",
    ),
}


@pytest.mark.parametrize("case", FACTS, ids=FACTS)
def test_facts_of_another_shape_are_told_by_host_and_field(meet, case):
    answer, words = FACTS[case]
    code, what, _ = meet.says(answer)
    assert (code, what[: len(words) + 3]) == (1, f"h: {words}")
    assert what.isprintable()


SAID = {
    "an answer without a bottom": (["[" * 100_000], "answered '[[[[", "login script"),
    "an answer with a number without an end": (['{"a": 1e999}'], 'answered \'{"a": 1e9', "login"),
    "an error without a reason": (['{"event": "error"}'], "failed and gave no reason", ""),
    "an event that there is not": (
        [LACKING, events({"event": "dance"})],
        "what it says of its run can't be understood: event: expected one of following, start, ",
        "/var/log/firstlight",
    ),
    "an end that says nothing": (
        [LACKING, events(START, CHANGE, {"event": "end"})],
        "what it says of its run can't be understood: end.result: expected str, got None",
        "/var/log/firstlight",
    ),
    "a run that is a path": (
        [LACKING, events(END, run="../../etc/shadow")],
        "what it says of its run can't be understood: following.run: expected the name of a run",
        "/var/log/firstlight",
    ),
    "a run that tells a mapping as its output": (
        [LACKING, events({"event": "output", "line": {}})],
        "what it says of its run can't be understood: output.line: expected str, got {}",
        "/var/log/firstlight",
    ),
}


@pytest.mark.parametrize("case", SAID, ids=SAID)
def test_a_host_that_says_something_else_is_told_with_what_it_said(meet, case):
    answers, words, hint = SAID[case]
    code, what, told_hint = meet.says(*answers)
    assert (code, what[: len(words) + 3]) == (1, f"h: {words}")
    assert hint in told_hint


@pytest.mark.parametrize("kernel", ["6.1.0-", "6.1 0", "$(reboot)", "../6.1"])
def test_a_kernel_that_no_package_can_be_named_after_blocks(meet, kernel):
    code, what, hint = meet.host({"boot": {"kernel": kernel}})
    assert code == 1
    assert f"kernel {kernel!r} has a name that no package of headers can have" in what
    assert hint == "see: uname -r; ls /boot"
