"""SSH as users have it: users without root, passwords, jump hosts, keys, tired servers."""

from __future__ import annotations

import os
import subprocess
import threading
import time

import pytest

from provision import inventory, lab, wire
from provision.errors import TransportError
from provision.target import lab_spec
from provision.transport import sudo
from provision.transport.address import resolve
from provision.transport.ssh import Ssh
from provision.transport.trust import Trust
from tests.lab.hosts import host_entry

NAME = "t-ssh"
QUERY = {
    "packages": [],
    "policy": [],
    "files": ["/etc/shadow"],
    "units": [],
    "environments": {},
    "uv": [],
    "compilers": [],
    "mounts": ["/"],
}


@pytest.fixture(scope="module")
def there():
    host = host_entry(NAME, suite="trixie")
    found = lab.up(lab_spec(host), fresh=True, say=lambda _: None)
    yield found
    lab.down(NAME, discard=True)


@pytest.fixture(autouse=True)
def _nobody_answered_yet(monkeypatch):
    monkeypatch.setattr(sudo, "_answers", [])
    monkeypatch.delenv(sudo.VARIABLE, raising=False)


def entry(there, tmp_path, config: str | None = None, **fields: str) -> inventory.Host:
    file = tmp_path / "ssh_config"
    file.write_text(config if config is not None else there.ssh_config.read_text())
    settings = "".join(f"    {key}: {value}\n" for key, value in fields.items())
    text = f"default: {NAME}\nhosts:\n  {NAME}:\n    ssh_config: {file}\n    stack: lab\n{settings}"
    return inventory.parse(text, "test.yaml").select()[0]


def login(host: inventory.Host, **trust) -> Ssh:
    return Ssh(host, resolve(host), Trust(**trust))


def sees_shadow(ssh: Ssh) -> bool:
    """The probe ran as root: only root reads this file."""
    try:
        answer = wire.probe(ssh, QUERY)["facts"]["files"]
        return answer["status"] == "ok" and answer["value"]["/etc/shadow"] is not None
    finally:
        ssh.close()


@pytest.mark.parametrize("user", ["root", "operator", "tty"])
def test_a_user_gets_root_without_a_password(there, tmp_path, user):
    assert sees_shadow(login(entry(there, tmp_path, user=user)))


def test_a_password_is_given_to_sudo_on_its_input(there, tmp_path, monkeypatch):
    monkeypatch.setenv(sudo.VARIABLE, lab.SUDO_PASSWORD)
    ssh = login(entry(there, tmp_path, user="admin"))
    assert sees_shadow(ssh)
    assert (ssh.cost.sessions, ssh.cost.execs) == (1, 2)  # it asks once, then answers


def test_the_password_stands_in_no_command_and_no_log(there, tmp_path, monkeypatch):
    monkeypatch.setenv(sudo.VARIABLE, lab.SUDO_PASSWORD)
    ssh = login(entry(there, tmp_path, user="admin"))
    wire.probe(ssh, QUERY)
    ssh.close()
    root = login(entry(there, tmp_path, user="root"))
    said = root.run(
        ("grep", "-rlaF", lab.SUDO_PASSWORD, "/var/log", "/run", "/home", "/root"), b"", deadline=20
    )
    root.close()
    assert said.out == ""


def test_a_wrong_password_is_refused_with_its_name(there, tmp_path, monkeypatch):
    monkeypatch.setenv(sudo.VARIABLE, "wrong")
    with pytest.raises(TransportError, match="sudo refuses the password of admin"):
        sees_shadow(login(entry(there, tmp_path, user="admin")))
    root = login(entry(there, tmp_path, user="root"))
    ask = ("/usr/bin/journalctl", "-q", "-o", "cat", "-t", "sudo")
    end = time.monotonic() + 20
    while "incorrect password attempt" not in (said := root.run(ask, b"", deadline=20).out):
        assert time.monotonic() < end, said  # sudo writes it once it has given up
        time.sleep(0.1)
    root.close()
    assert "1 incorrect password attempt " in said  # more would lock the account somewhere
    assert "3 incorrect password attempts" not in said


def test_nobody_to_ask_is_said(there, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", open(os.devnull))  # noqa: PTH123, SIM115
    with pytest.raises(TransportError, match="sudo asks for a password") as error:
        sees_shadow(login(entry(there, tmp_path, user="admin")))
    assert sudo.VARIABLE in error.value.hint


def test_through_a_jump_host(there, tmp_path):
    config = there.ssh_config.read_text()
    config += "\n" + config.replace(f"Host {NAME}\n", "Host inner\n    ProxyJump t-ssh\n")
    host = entry(there, tmp_path, config, address="inner")
    before = lab.sshd_sessions(NAME)
    assert sees_shadow(login(host))
    assert lab.sshd_sessions(NAME) - before == 2


def test_proxy_jump_none_is_no_jump(there, tmp_path):
    config = there.ssh_config.read_text() + "    ProxyJump none\n"
    assert sees_shadow(login(entry(there, tmp_path, config)))


def test_an_alias_of_the_host_key_is_honoured(there, tmp_path):
    known = tmp_path / "known"
    lines = there.ssh_config.read_text().splitlines()
    old = next(line.split()[1] for line in lines if "UserKnownHostsFile" in line)
    with open(old) as file:  # noqa: PTH123
        known.write_text("cluster " + file.read().partition(" ")[2])
    kept = [line for line in lines if "UserKnownHostsFile" not in line]
    kept += [f"    UserKnownHostsFile {known}", "    HostKeyAlias cluster"]
    assert sees_shadow(login(entry(there, tmp_path, "\n".join(kept))))


def without_known_hosts(there, tmp_path) -> str:
    lines = there.ssh_config.read_text().splitlines()
    kept = [line for line in lines if "UserKnownHostsFile" not in line]
    return "\n".join([*kept, f"    UserKnownHostsFile {tmp_path}/new_known_hosts"])


def test_an_unknown_key_stops_the_run(there, tmp_path):
    host = entry(there, tmp_path, without_known_hosts(there, tmp_path))
    with pytest.raises(TransportError, match=r"is not known: .* SHA256:") as error:
        sees_shadow(login(host))
    assert "--accept-new-host-key" in error.value.hint
    assert not (tmp_path / "new_known_hosts").exists()


def test_an_accepted_key_is_remembered(there, tmp_path):
    host = entry(there, tmp_path, without_known_hosts(there, tmp_path))
    assert sees_shadow(login(host, accept_new=True))
    assert sees_shadow(login(host))


def test_a_fingerprint_of_the_inventory_is_enough(there, tmp_path):
    host = entry(there, tmp_path, without_known_hosts(there, tmp_path))
    with pytest.raises(TransportError) as error:
        sees_shadow(login(host))
    stated = error.value.what.split()[-1]
    assert sees_shadow(login(host, fingerprint=stated))
    with pytest.raises(TransportError, match="the inventory states"):
        sees_shadow(login(host, fingerprint="SHA256:" + "A" * 43))


def test_a_key_with_a_passphrase_comes_from_the_agent(there, tmp_path):
    lines = there.ssh_config.read_text().splitlines()
    key = next(line.split()[1] for line in lines if "IdentityFile" in line)
    own = tmp_path / "key"
    for end in ("", ".pub"):
        with open(key + end, "rb") as file:  # noqa: PTH123
            (tmp_path / f"key{end}").write_bytes(file.read())
    own.chmod(0o600)
    sealed = ["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", str(own)]
    config = there.ssh_config.read_text().replace(key, str(own))
    agent = subprocess.run(["ssh-agent", "-s"], capture_output=True, text=True, check=True).stdout
    values = dict(part.split("=") for part in agent.replace("\n", "").split(";") if "=" in part)
    env = {**os.environ, **values}
    try:
        for number in range(8):  # more than MaxAuthTries would let us try
            other = tmp_path / f"other{number}"
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(other)], check=True
            )
            subprocess.run(["ssh-add", "-q", str(other)], env=env, check=True)
        subprocess.run(["ssh-add", "-q", str(own)], env=env, check=True)
        subprocess.run(sealed, check=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SSH_AUTH_SOCK", values["SSH_AUTH_SOCK"])
            assert sees_shadow(login(entry(there, tmp_path, config)))
            for kind in ("IdentitiesOnly yes", "IdentitiesOnly no"):
                text = config.replace("IdentitiesOnly yes", kind)
                assert sees_shadow(login(entry(there, tmp_path, text)))
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv("SSH_AUTH_SOCK", raising=False)
            patch.setattr("sys.stdin", open(os.devnull))  # noqa: PTH123, SIM115
            with pytest.raises(TransportError) as error:
                sees_shadow(login(entry(there, tmp_path, config)))
            assert "has a passphrase" in error.value.hint
    finally:
        os.kill(int(values["SSH_AGENT_PID"]), 15)


def test_twelve_logins_at_once_pass_a_server_that_drops_bursts(there, tmp_path):
    lab.configure_sshd(NAME, "MaxStartups 4:50:10\nPerSourcePenalties no\n")
    try:
        host = entry(there, tmp_path)
        results: list[bool] = []
        threads = [
            threading.Thread(target=lambda: results.append(sees_shadow(login(host))))
            for _ in range(12)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [True] * 12
    finally:
        lab.configure_sshd(NAME, "")


def test_a_changed_key_stops_the_run(there, tmp_path):
    """The last test here: afterwards the host's own configuration is wrong, too."""
    lab.rekey(NAME)
    for accept_new in (False, True):
        with pytest.raises(TransportError, match="has CHANGED"):
            sees_shadow(login(entry(there, tmp_path), accept_new=accept_new))
