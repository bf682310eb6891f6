"""Which keys are offered to a host, in which order, and what is said of those that can't be."""

import base64
import getpass
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from sshd import new_key

from provision.errors import TransportError
from provision.transport.address import Address
from provision.transport.keys import Keys
from provision.transport.ssh import Ssh
from provision.transport.trust import Trust


@pytest.fixture(autouse=True)
def nobody_to_ask(monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: False))


@pytest.fixture
def typed(monkeypatch):
    """Somebody at a terminal: the questions asked, and the answers they get."""
    asked, answers = [], []

    def ask(prompt):
        asked.append(prompt)
        return answers.pop(0)

    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr(getpass, "getpass", ask)
    return SimpleNamespace(asked=asked, answers=answers)


def offered(*identities, only=False):
    """The keys that would be offered, by their bytes, and what is said of them."""
    address = Address(
        hostname="h",
        port=22,
        user="ops",
        identities=tuple(map(str, identities)),
        identities_only=only,
    )
    keys = Keys(address)
    return [source.pkey.asbytes() for source in keys.get_sources()], keys.tried


def agent_key(name="ssh-ed25519", blob=b"1"):
    return SimpleNamespace(get_name=lambda: name, asbytes=lambda: blob)


def test_configured_keys_come_first_in_their_order_then_the_agent_s(keys, agent):
    agent += [agent_key(blob=b"1"), agent_key(blob=b"2")]
    found, tried = offered(keys["other"][0], keys["user"][0])
    assert found == [keys["other"][1].asbytes(), keys["user"][1].asbytes(), b"1", b"2"]
    assert tried[:2] == [str(keys["other"][0]), str(keys["user"][0])]
    assert tried[2:] == ["the agent's ssh-ed25519"] * 2


def test_an_agent_is_not_emptied_onto_a_host_with_a_key_of_its_own(keys, agent):
    agent.append(agent_key())
    assert offered(keys["user"][0], only=True)[0] == [keys["user"][1].asbytes()]


def test_a_configured_key_that_the_agent_holds_is_offered_once_and_in_its_place(keys, agent):
    blob = keys["user"][1].asbytes()
    agent += [agent_key(blob=b"1"), agent_key(blob=blob)]
    assert offered(keys["user"][0])[0] == [blob, b"1"]
    assert offered(keys["user"][0], only=True)[0] == [blob]


def test_an_encrypted_key_that_the_agent_holds_needs_no_passphrase(tmp_path, agent):
    key = new_key(tmp_path / "locked", "secret")
    agent.append(agent_key(blob=key.asbytes()))
    assert offered(tmp_path / "locked") == ([key.asbytes()], [str(tmp_path / "locked")])


def test_security_keys_of_the_agent_are_passed_over(agent):
    agent += [agent_key("sk-ssh-ed25519@openssh.com", b"1"), agent_key("ssh-rsa", b"2")]
    assert offered() == ([b"2"], ["the agent's ssh-rsa"])


def test_an_encrypted_key_without_a_terminal_is_said_to_have_a_passphrase(tmp_path, agent):
    new_key(tmp_path / "locked", "secret")
    found, tried = offered(tmp_path / "locked")
    assert (found, tried) == (
        [],
        [f"{tmp_path}/locked (has a passphrase: ssh-add {tmp_path}/locked)"],
    )


def test_an_encrypted_key_at_a_terminal_is_asked_about(tmp_path, agent, typed):
    key = new_key(tmp_path / "locked", "secret")
    typed.answers.append("secret")
    assert offered(tmp_path / "locked")[0] == [key.asbytes()]
    assert typed.asked == [f"passphrase of {tmp_path}/locked: "]


def test_another_passphrase_is_said(tmp_path, agent, typed):
    new_key(tmp_path / "locked", "secret")
    typed.answers.append("guess")
    found, tried = offered(tmp_path / "locked")
    assert (found, tried) == ([], [f"{tmp_path}/locked (another passphrase)"])


def test_a_passphrase_is_asked_for_once_for_all_hosts(tmp_path, agent, typed):
    new_key(tmp_path / "locked", "secret")
    typed.answers += ["secret", "secret"]
    assert offered(tmp_path / "locked")[0] == offered(tmp_path / "locked")[0]
    assert len(typed.asked) == 1


def test_hosts_at_the_same_time_ask_for_a_passphrase_once(tmp_path, agent, typed):
    new_key(tmp_path / "locked", "secret")
    typed.answers += ["secret"]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(offered, [tmp_path / "locked"] * 8))
    assert found == [found[0]] * 8


@pytest.mark.parametrize("content", ["", "no key\n", "-----BEGIN OPENSSH PRIVATE KEY-----\n"])
def test_a_file_that_is_no_key_is_said_to_be_unreadable(tmp_path, agent, content):
    (tmp_path / "k").write_text(content)
    found, (tried,) = offered(tmp_path / "k")
    assert found == []
    assert tried.startswith(f"{tmp_path}/k (can't be read: ")


@pytest.mark.parametrize("public", [b"", b"ssh-ed25519", b"ssh-ed25519 !!!"])
def test_a_public_half_that_can_t_be_read_hides_no_key(tmp_path, agent, public):
    key = new_key(tmp_path / "k")
    (tmp_path / "k.pub").write_bytes(public)
    assert offered(tmp_path / "k")[0] == [key.asbytes()]


# --- against a server --------------------------------------------------------------------------


def test_a_key_of_the_agent_opens_the_host(login, agent, keys):
    agent.append(keys["user"][1])
    assert login(identities=()).run(("cat",), b"x", deadline=10).out == "x"


def test_a_key_that_the_host_does_not_want_is_followed_by_the_next(login, server, keys):
    identities = tuple(str(keys[name][0]) for name in ("other", "user"))
    assert login(identities=identities).run(("cat",), b"x", deadline=10).out == "x"
    names = [base64.b64encode(key.asbytes()).decode() for key in server.offered]
    assert list(dict.fromkeys(names)) == [
        base64.b64encode(keys[name][1].asbytes()).decode() for name in ("other", "user")
    ]


def refused(ssh, where="root@127.0.0.1"):
    with pytest.raises(TransportError, match=f"^h: {where} refuses us$") as caught:
        ssh.run(("cat",), b"", deadline=10)
    return caught.value.hint


def test_keys_that_the_host_does_not_want_are_named(login, server, keys, agent):
    agent.append(keys["gate"][1])
    hint = refused(login(offer="other"))
    assert hint.startswith(f"tried {keys['other'][0]}, the agent's ssh-ed25519; ")
    assert hint.endswith(f"; see what ssh says: ssh -v -p {server.port} root@127.0.0.1")


def test_a_refusal_names_the_same_login_for_ssh(login, server, entry):
    address = login(offer="other", name="gpu").address
    ssh = Ssh(entry(ssh_config=Path("/a b")), address, Trust())
    assert refused(ssh).endswith(f"ssh -v -F '/a b' -p {server.port} root@gpu")


def test_an_encrypted_key_is_named_in_the_refusal(login, tmp_path):
    new_key(tmp_path / "locked", "secret")
    hint = refused(login(identities=(str(tmp_path / "locked"),)))
    assert f"ssh-add {tmp_path}/locked" in hint


def test_no_key_at_all_is_said(login):
    assert "tried no key: there is none" in refused(login(identities=()))
