"""What users give: inventories, stacks and options that are wrong.

Each through the layer that meets it: code, what, where, what was expected, a hint. A traceback is
any other exception than ours, and fails the test by itself. Stacks, locks and plan
files: test_bad_files.py; what hosts give: test_bad_hosts.py.
"""

import json

import pytest
from layers import ITS_OWN_WORDS, SAYS_WHAT_IS_EXPECTED, THERE, told

HOST = "default: a\nhosts:\n  a:\n    stack: lab\n    "
"""An inventory up to the line that is wrong, its fifth."""
INDEX = "inventory.yaml:5: "

KEY_AND_CA = "-----BEGIN CERTIFICATE-----\n-----BEGIN RSA PRIVATE KEY-----\n"

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
        (2, [INDEX, "hosts.a.adress: unknown field; did you mean address?"], "address, user, port"),
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
    "a whole file that is empty": (
        ("inventory", ""),
        (2, ["inventory.yaml:1: hosts: expected a mapping of host names"], SAYS_WHAT_IS_EXPECTED),
    ),
    "a file that is nested without an end": (
        ("inventory", f"{THERE}x: {'[' * 1000}"),
        (2, ["inventory.yaml:4: it is nested too deeply"], SAYS_WHAT_IS_EXPECTED),
    ),
    "an alias that holds itself": (
        ("inventory", "default: a\nhosts: &x\n  a: *x\n"),
        (2, ["inventory.yaml:2: hosts.a.a: an alias that holds itself"], SAYS_WHAT_IS_EXPECTED),
    ),
    "a character that no text has": (
        ("inventory", f"{THERE}x: \0\n"),
        (2, ["inventory.yaml:4: character 0x0 is not allowed"], SAYS_WHAT_IS_EXPECTED),
    ),
    "a tab for indentation": (
        ("inventory", "default: a\nhosts:\n\ta: {}\n"),
        (2, ["inventory.yaml:3: ", "cannot start any token"], ITS_OWN_WORDS),
    ),
    "a number for a host's name": (
        ("inventory", f"{THERE}  7: {{stack: lab}}\n"),
        (2, ["inventory.yaml:4: hosts: 7 is no text"], "in quotes"),
    ),
    "a host's name that is a path": (
        ("inventory", f"{THERE}  ../b: {{stack: lab}}\n"),
        (2, ["inventory.yaml:4: hosts.../b", "pattern"], SAYS_WHAT_IS_EXPECTED),
    ),
    "defaults that are a list": (
        ("inventory", f"{THERE}defaults: [root]\n"),
        (2, ["inventory.yaml:4: defaults: expected a mapping"], SAYS_WHAT_IS_EXPECTED),
    ),
    "a default field that is misspelt": (
        ("inventory", f"{THERE}defaults:\n  usr: root\n"),
        (2, ["inventory.yaml:5: defaults.usr: unknown field"], "address, user, port"),
    ),
    "a group that is one name": (
        ("inventory", f"{THERE}groups:\n  all: a\n"),
        (2, ["inventory.yaml:5: groups.all: ", "expected a list, got 'a'"], SAYS_WHAT_IS_EXPECTED),
    ),
    "a user on this computer itself": (
        ("inventory", f"{THERE}  b: {{connection: local, user: x, stack: lab}}\n"),
        (2, ["inventory.yaml:4: hosts.b.user: a host with `connection: local` has"], "itself"),
    ),
    "a CA that is no certificate": (
        ("beside", "ca.pem", "hello", f"{HOST}site: {{ca: ca.pem}}\n"),
        (2, [INDEX, "hosts.a.site.ca: ", "not a PEM file"], SAYS_WHAT_IS_EXPECTED),
    ),
    "a private key beside the CA": (
        ("beside", "ca.pem", KEY_AND_CA, f"{HOST}site: {{ca: ca.pem}}\n"),
        (2, [INDEX, "hosts.a.site.ca: ", "holds a private key"], SAYS_WHAT_IS_EXPECTED),
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
        (2, ["lab.toml: dat: unknown field; did you mean date?"], "system, date, toolkits"),
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
        ("invoke", "apply", "--output"),
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
    "a host that is no lab host is brought up": (
        ("invoke", "lab.up", "--host", "a"),
        (2, ["error: inventory.yaml:3: a is no lab host"], "`lab` entry"),
    ),
    "a lab host that there is not is logged in to": (
        ("invoke", "lab.ssh", "--host", "-oProxyCommand=x"),
        (1, ["error: -oProxyCommand=x: the lab host is not running"], "invoke lab.up"),
    ),
    "a stack that there is not is locked": (
        ("invoke", "lock", "--stack", "z"),
        (2, ["error: there is no stack 'z'"], "stacks there: lab"),
    ),
    "an environment that there is not is locked": (
        ("invoke", "lock", "--environment", "z"),
        (2, ["error: the stacks have no environment 'z'"], "environments there: main"),
    ),
    "an upgrade that is only checked": (
        ("invoke", "lock", "--check", "--upgrade", "numpy"),
        (2, ["error: --check resolves nothing"], SAYS_WHAT_IS_EXPECTED),
    ),
    "an upgrade that is an option": (
        ("invoke", "lock", "--stack", "lab", "--upgrade=--index-url=x"),
        (2, ["error: --upgrade --index-url=x: no lock of those asked for holds it"], "invoke lock"),
    ),
    "a stack that there is not is checked": (
        ("invoke", "check-stack", "--stack", "../lab"),
        (2, ["error: there is no stack '../lab'"], "stacks there: lab"),
    ),
    "a plan file that is not named": (
        ("invoke", "apply"),
        (1, ["'apply' did not receive required positional arguments: 'file'"], ITS_OWN_WORDS),
    ),
    "a host that is not named": (
        ("invoke", "verify", "--host"),
        (2, ["error: --host needs a name"], "invoke --help"),
    ),
    "a group that is not named before another option": (
        ("invoke", "plan", "--group", "--verbose"),
        (2, ["error: --group needs a name"], "invoke --help"),
    ),
    "a host whose name is empty": (
        ("invoke", "provision", "--host", ""),
        (2, ["error: inventory.yaml: there is no host ''"], "hosts there: a"),
    ),
    "a folder for a plan file": (
        ("invoke", "apply", "."),
        (2, [".: can't be read as a plan: ", "Is a directory"], "invoke plan --output"),
    ),
}


@pytest.mark.parametrize("case", CASES, ids=CASES)
def test_a_bad_input_is_told_with_its_place_and_what_to_do(meet, case):
    told(meet, *CASES[case])


def test_an_option_without_its_name_is_an_error_in_the_data(invoke):
    done = invoke("plan", "--group", "--json")
    assert (done.code, json.loads(done.out)["error"]) == (2, "--group needs a name")


LINES = {
    "an address with a port": (
        "address: gpu01:22",
        "address: not a name or an IP address (`port` is a field of its own), got ",
    ),
    "an address with half a zone": ("address: 'fe80::1%'", "address: not a name"),
    "an address of two words": ("address: gpu01 gpu02", "address: String should match pattern"),
    "an address with a substitution": ("address: '$(reboot)'", "address: String should match"),
    "an address that is a list": ("address: [gpu01]", "address: Input should be a valid string"),
    "a user who is an option": ("user: -oX", "user: String should match pattern"),
    "a user with a newline": ('user: "root\\nx"', "user: String should match pattern"),
    "a port below all": ("port: 0", "port: Input should be greater than or equal to 1, got 0"),
    "a configuration with a NUL": (
        'ssh_config: "a\\0b"',
        "ssh_config: has characters that no file's name should have",
    ),
    "a stack that is a number": ("stack: 5", "stack: stands twice, first in line 4"),
    "a model that is a list": ("gpus: {count: 1, model: [x]}", "gpus.model: Input should be a"),
    "more GPUs than a host holds": ("gpus: {count: 65, model: x}", "gpus.count: Input should be"),
    "a login in a proxy": (
        "site: {proxy: 'http://user:secret@proxy:3128'}",
        "site.proxy: has a login in it, which everybody on the host could read",
    ),
    "a login in an index": (
        "site: {index: 'https://secret@pypi.example/simple'}",
        "site.index: has a login in it, which everybody on the host could read",
    ),
    "a login in a repository": (
        "repository: {url: 'https://user:secret@h/x', fingerprint: x}",
        "repository.url: has a login in it, which everybody on the host could read",
    ),
    "a repository without a host": (
        "repository: {url: 'https:///x', fingerprint: x}",
        "repository.url: names no host, got 'https:///x'",
    ),
    "an index that could end its line": (
        "site: {index: 'https://h/\"\n    x'}",
        "site.index: String should match pattern",
    ),
    "a proxy with a path of shells": (
        "site: {proxy: 'http://h/$(x)'}",
        "site.proxy: String should match pattern",
    ),
    "a proxy that is cut short": ("site: {proxy: 'http://[::1'}", "site.proxy: Inval"),
    "a direct host with a space": ("site: {direct: ['a b']}", "site.direct.0: String should match"),
    "a lab without memory": ("lab: {memory_gib: 0}", "lab.memory_gib: Input should be greater"),
    "a lab of another Debian": ("lab: {suite: buster}", "lab.suite: Input should be 'bookworm' or"),
    "a lab's hardware elsewhere": ("lab: {hardware: ../x}", "lab.hardware: String should match"),
    "a name of the place": ("name: b", "name: unknown field"),
}
"""A host's line → what is said of it behind its place."""


@pytest.mark.parametrize("case", LINES, ids=LINES)
def test_a_bad_line_of_a_host_is_told_with_its_place(meet, case):
    line, words = LINES[case]
    at = "inventory.yaml:3: " if case == "a name of the place" else INDEX
    told(meet, ("inventory", f"{HOST}{line}\n"), (2, [f"{at}hosts.a.{words}"], ""))
