"""Which hosts are believed to be who they should be."""

import paramiko
import pytest
from paramiko.hostkeys import HostKeys

from conftest import known_line
from provision.errors import TransportError
from provision.transport.trust import Trust, fingerprint


def answers(ssh):
    return ssh.run(("cat",), b"x", deadline=10).out == "x"


def refused(ssh):
    with pytest.raises(TransportError) as caught:
        ssh.run(("cat",), b"", deadline=10)
    return caught.value


def test_a_host_key_that_is_not_known_is_refused_with_its_fingerprint(login, server, keys):
    ssh = login(known=None)
    error = refused(ssh)
    assert error.what.startswith("h: the host key of 127.0.0.1 is not known: ssh-ed25519 SHA256:")
    assert fingerprint(keys["host"][1]) in error.what
    assert "--accept-new-host-key" in error.hint
    assert "host_key" in error.hint
    assert (ssh.cost.sessions, ssh.cost.execs, server.offered) == (0, 0, [])


def test_a_host_key_that_has_changed_is_refused_with_both_fingerprints(login, server, keys):
    error = refused(login(known="other"))
    assert "has CHANGED" in error.what
    for name in ("host", "other"):
        assert fingerprint(keys[name][1]) in error.what
    assert f"ssh-keygen -R '[127.0.0.1]:{server.port}'" in error.hint
    assert server.offered == []


def test_a_fingerprint_is_as_ssh_keygen_prints_it(keys):
    assert len(fingerprint(keys["host"][1])) == len("SHA256:") + 43


# --- the inventory's fingerprint ---------------------------------------------------------------


def stating(keys, name):
    return Trust(fingerprint=fingerprint(keys[name][1]))


def test_a_key_that_the_inventory_states_is_accepted_and_written_nowhere(login, keys, tmp_path):
    assert answers(login(known=None, trust=stating(keys, "host")))
    assert not (tmp_path / "known_hosts").exists()


def test_another_key_than_the_inventory_states_is_refused_with_both(login, server, keys):
    error = refused(login(known=None, trust=stating(keys, "other")))
    assert error.what == (
        f"h: 127.0.0.1 offers the host key {fingerprint(keys['host'][1])}, "
        f"the inventory states {fingerprint(keys['other'][1])}"
    )
    assert "host_key" in error.hint
    assert server.offered == []


def test_a_changed_key_is_refused_though_the_inventory_states_it(login, keys):
    assert "has CHANGED" in refused(login(known="other", trust=stating(keys, "host"))).what


def test_a_known_key_that_is_not_the_inventory_s_is_refused(login, server, keys):
    assert "the inventory states" in refused(login(trust=stating(keys, "other"))).what
    assert server.offered == []


# --- accepting new keys ------------------------------------------------------------------------

NEW = Trust(accept_new=True)


def test_an_accepted_key_is_remembered(login, server, keys, tmp_path):
    assert answers(login(known=None, trust=NEW))
    line = known_line(f"[127.0.0.1]:{server.port}", keys["host"][1])
    assert (tmp_path / "known_hosts").read_text() == line
    assert answers(login(known=None))


def test_a_remembered_key_stands_behind_those_that_were_known(login, tmp_path, keys):
    other = known_line("other.example", keys["other"][1])
    (tmp_path / "known_hosts").write_text(other)
    assert answers(login(known=None, trust=NEW))
    assert (tmp_path / "known_hosts").read_text().startswith(other)


def test_a_key_is_remembered_in_a_folder_that_is_not_there_yet(login, tmp_path):
    file = tmp_path / "home" / ".ssh" / "known_hosts"
    assert answers(login(known=None, trust=NEW, known_hosts=()))
    assert file.is_file()
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_an_accepted_key_is_not_remembered_where_no_file_is_wanted(login, tmp_path):
    machine = tmp_path / "ssh_known_hosts"
    assert answers(login(known=None, trust=NEW, known_hosts=(machine,), remembers=False))
    assert not machine.exists()
    assert not (tmp_path / "home").exists()


def test_a_changed_key_is_refused_also_where_new_ones_are_accepted(login, server, tmp_path):
    error = refused(login(known="other", trust=NEW))
    assert "has CHANGED" in error.what
    assert len((tmp_path / "known_hosts").read_text().splitlines()) == 1
    assert server.offered == []


def test_accepting_new_keys_does_not_overrule_the_inventory_s(login, keys):
    trust = Trust(fingerprint=fingerprint(keys["other"][1]), accept_new=True)
    assert "the inventory states" in refused(login(known=None, trust=trust)).what


# --- known_hosts -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "[127.0.0.1]:1 ssh-ed25519 AAAA!bad\n",
        "broken\n",
        "h ssh-rsa AAAAB3NzaC1yc2EAAAA\n",
        "* ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAAA==\n",
        "* ssh-of-the-future AAAA\n",
        "|1|no|hash ssh-ed25519 AAAA\n",
        "\n",
        "# a comment\n",
        "# * ssh-ed25519 AAAA\n",
        "@\n",
        "@revoked *\n",
    ],
)
def test_a_line_that_can_t_be_read_vouches_for_nobody_and_hides_nothing(login, tmp_path, line):
    ssh = login()
    file = tmp_path / "known_hosts"
    file.write_text(line + file.read_text())
    assert answers(ssh)


def test_a_key_is_known_under_its_alias(login, tmp_path, keys):
    (tmp_path / "known_hosts").write_text(known_line("gpu", keys["host"][1]))
    assert answers(login(known=None, host_key_alias="gpu"))


def test_a_key_that_an_alias_has_changed_is_refused_under_that_name(login, tmp_path, keys):
    (tmp_path / "known_hosts").write_text(known_line("gpu", keys["other"][1]))
    error = refused(login(known=None, host_key_alias="gpu"))
    assert "has CHANGED" in error.what
    assert "ssh-keygen -R 'gpu'" in error.hint


def test_the_alias_s_key_counts_also_where_the_address_has_another(login, tmp_path, keys, server):
    lines = [("gpu", "host"), (f"[127.0.0.1]:{server.port}", "other")]
    text = "".join(known_line(name, keys[key][1]) for name, key in lines)
    (tmp_path / "known_hosts").write_text(text)
    assert answers(login(known=None, host_key_alias="gpu"))


def test_a_key_that_is_known_under_the_address_alone_does_not_vouch_for_an_alias(login):
    assert "is not known" in refused(login(host_key_alias="gpu")).what


def test_a_new_key_is_remembered_under_its_alias(login, tmp_path, keys):
    assert answers(login(known=None, host_key_alias="gpu", trust=NEW))
    assert (tmp_path / "known_hosts").read_text() == known_line("gpu", keys["host"][1])


def test_a_revoked_key_is_refused_though_another_line_knows_it(login, tmp_path, keys):
    ssh = login()
    file = tmp_path / "known_hosts"
    file.write_text(f"@revoked {file.read_text()}{file.read_text()}")
    assert "is REVOKED" in refused(ssh).what


@pytest.mark.parametrize("trust", [Trust(), NEW])
def test_a_revoked_key_is_refused_though_no_line_knows_it(login, tmp_path, keys, trust):
    (tmp_path / "known_hosts").write_text(f"@revoked {known_line('*', keys['host'][1])}")
    assert "is REVOKED" in refused(login(known=None, trust=trust)).what


def test_an_authority_s_key_is_no_host_s(login, tmp_path, keys):
    ssh = login()
    with (tmp_path / "known_hosts").open("a") as file:
        file.write(f"@cert-authority {known_line('*', keys['other'][1])}")
    assert answers(ssh)
    (tmp_path / "known_hosts").write_text(f"@cert-authority {known_line('*', keys['host'][1])}")
    assert "is not known" in refused(login(known=None)).what


@pytest.mark.parametrize(
    ("names", "known"),
    [
        ("other,[127.0.0.*]:*", True),
        ("[127.0.0.?]:*", True),
        ("*,![127.*", False),
        ("127.0.0.1", False),
        ("HASH", True),
        (HostKeys.hash_host("127.0.0.1"), False),
    ],
    ids=["all ports", "one figure", "but not", "another port", "a hash", "another port's hash"],
)
def test_names_may_be_patterns_or_hashes(login, server, tmp_path, keys, names, known):
    names = names.replace("HASH", HostKeys.hash_host(f"[127.0.0.1]:{server.port}"))
    (tmp_path / "known_hosts").write_text(known_line(names, keys["host"][1]))
    ssh = login(known=None)
    assert answers(ssh) if known else "is not known" in refused(ssh).what


def test_any_of_several_known_keys_will_do(login, server, tmp_path, keys):
    lines = [known_line(f"[127.0.0.1]:{server.port}", keys[name][1]) for name in ("host", "other")]
    (tmp_path / "known_hosts").write_text("".join(lines))
    assert answers(login(known=None))


def test_a_host_with_several_keys_is_asked_for_the_known_one(login, server, tmp_path):
    key = paramiko.ECDSAKey.generate()
    server.more_keys.append(key)
    (tmp_path / "known_hosts").write_text(known_line(f"[127.0.0.1]:{server.port}", key))
    assert answers(login(known=None))
