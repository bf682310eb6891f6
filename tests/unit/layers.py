"""The layers that meet what users and hosts give: each a method that is given something bad."""

import json

import pytest
from samples import WANT, raw
from sshd import new_key

from provision import engine, inventory, stack
from provision.errors import ProvisionError
from provision.target import Target, lab_spec
from provision.transport.address import resolve
from provision.transport.recorded import Recorded

SAYS_WHAT_IS_EXPECTED = ""
"""No hint is needed: the message itself names what would be right."""
ITS_OWN_WORDS = ""
"""No hint is needed: it repeats what another program said of its own input."""
THERE = "default: a\nhosts:\n  a: {stack: lab}\n"


class Meet:
    """One method for each layer; each gives exit code, message and hint."""

    def __init__(self, tmp_path, fixtures):
        self.tmp_path = tmp_path
        self.fixtures = fixtures

    def caught(self, work):
        with pytest.raises(ProvisionError) as caught:
            work()
        error = caught.value
        return error.exit_code, error.what, error.hint

    def inventory(self, text):
        return self.caught(lambda: inventory.parse(text, "inventory.yaml", self.tmp_path))

    def beside(self, name, content, text):
        """An inventory, beside which a file lies."""
        (self.tmp_path / name).write_text(content)
        return self.inventory(text)

    def selected(self, *hosts, groups=()):
        return self.caught(lambda: inventory.parse(THERE, "inventory.yaml").select(hosts, groups))

    def file(self, content):
        file = self.tmp_path / "inventory.yaml"
        if content is not None:
            file.write_bytes(content)
        return self.caught(lambda: inventory.load(file))

    def stack(self, file, old, new):
        """A shipped stack, spoilt."""
        folder = self.tmp_path
        for one in ("lab.toml", "r590-cuda131-cuda128.toml"):
            text = (stack.FOLDER / one).read_text()
            assert file != one or old in text
            (folder / one).write_text(text.replace(old, new, 1) if file == one else text)
        patch = self.fixtures("monkeypatch")
        patch.setattr(stack, "FOLDER", folder)
        return self.caught(lambda: stack.load("lab").locks)

    def lock(self, content):
        """The lock of stack lab, with this content."""
        folder = self.tmp_path / "locks"
        folder.mkdir()
        write(folder / "lab.main.txt", content)
        return self.stack("lab.toml", "", "")

    def plan(self, content):
        """A plan file that is applied."""
        file = self.tmp_path / "plan.json"
        write(file, content)
        return self.invoke("apply", str(file))

    def invoke(self, *argv):
        file = self.tmp_path / "inventory.yaml"
        file.write_text(THERE)
        done = self.fixtures("invoke")(*argv, inventory=file)
        assert done.out == ""
        what, _, hint = done.err.partition("\n\nhint: ")
        return done.code, what, hint

    def address(self, script, **fields):
        self.fixtures("fake_ssh")(script)
        host = self.fixtures("entry")(address="gpu01", **fields)
        return self.caught(lambda: resolve(host))

    def login(self, *, root=False, **fields):
        ssh = self.fixtures("login")(**fields)
        return self.caught(lambda: ssh.run(("cat",), b"x", deadline=10, root=root))

    def encrypted(self):
        new_key(self.tmp_path / "locked", "secret")
        return self.login(identities=(str(self.tmp_path / "locked"),))

    def sudo(self, password=None):
        self.fixtures("server").wants_password = True
        ssh = self.fixtures("login")(user="ops")
        if password:
            self.fixtures("monkeypatch").setenv("FIRSTLIGHT_SUDO_PASSWORD", password)
        return self.caught(lambda: ssh.run(("cat",), b"x", deadline=10, root=True))

    def says(self, *answers):
        """A host that answers this to the probe and to what follows."""
        host = self.fixtures("entry")()
        target = Target(
            host=host, want=WANT, transport=Recorded("h", [("", one) for one in answers])
        )
        return self.caught(lambda: engine.provision(target, lambda event: None))

    def host(self, *promises, **answers):
        """A host that is so: provisioning it is refused."""
        return self.says(json.dumps(raw(*promises, **answers)))

    def unoffered(self, name):
        """A host that lacks a package, as does every index it has read."""
        found = raw({"dpkg": {"packages": {name: None}}})
        del found["facts"]["apt"]["value"]["policy"][name]
        return self.says(json.dumps(found))

    def lab(self):
        return self.caught(lambda: lab_spec(self.fixtures("entry")()))


def write(file, content):
    """Text, or bytes that are none."""
    file.write_bytes(content if isinstance(content, bytes) else content.encode())


def told(meet, given, expected):
    """A layer is given something: its exit code, the words of its message, and its hint."""
    (layer, *given), (code, words, hint) = given, expected
    named = given.pop() if layer == "login" else {}
    exit_code, what, said = getattr(meet, layer)(*given, **named)
    assert [word for word in words if word not in what] == []
    assert exit_code == code
    assert hint in said
    assert bool(hint) is bool(said)
    assert "secret" not in what + said
