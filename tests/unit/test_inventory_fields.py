"""What an inventory's fields mean: aliases, defaults, paths and sites."""

import pytest

from provision import inventory
from provision.errors import UsageError


def parsed(text):
    return inventory.parse(text, "inventory.yaml")


def test_hosts_that_share_an_alias_are_hosts_of_their_own():
    hosts = parsed("default: a\nhosts:\n  a: &x {stack: one}\n  b: *x\n").hosts
    assert [(host.name, host.address) for host in hosts.values()] == [("a", "a"), ("b", "b")]


def test_hosts_that_come_by_a_merge_key():
    hosts = parsed("default: a\nhosts:\n  <<: {a: {stack: one}}\n").hosts
    assert hosts["a"].where == "inventory.yaml:2"


def test_defaults_are_for_hosts_that_do_not_say_otherwise():
    text = (
        "default: a\ndefaults:\n  stack: one\n  user: ops\n  site: {proxy: 'http://proxy:1'}\n"
        "hosts:\n  a: {}\n  b: {stack: two, user: root}\n"
    )
    a, b = parsed(text).hosts.values()
    assert (a.stack, a.user, a.address) == ("one", "ops", "a")
    assert (b.stack, b.user, b.address) == ("two", "root", "b")
    assert a.site.proxy == b.site.proxy == "http://proxy:1"


def test_no_defaults_are_none():
    assert parsed("default: a\ndefaults:\nhosts:\n  a: {stack: one}\n").hosts["a"].stack == "one"


def test_an_unknown_field_of_the_defaults_is_named_where_it_stands():
    with pytest.raises(UsageError, match=r"inventory\.yaml:3: .*adress: unknown field"):
        parsed("default: a\ndefaults:\n  adress: x\nhosts:\n  a: {stack: one}\n")


@pytest.fixture
def beside(tmp_path, monkeypatch):
    """An inventory in a folder with a CA, while one works elsewhere."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\n")
    (tmp_path / "site" / "no.pem").write_text("no certificate\n")
    monkeypatch.chdir(tmp_path)

    def load(fields):
        file = tmp_path / "site" / "inventory.yaml"
        file.write_text(f"default: a\nhosts:\n  a:\n    stack: one\n    {fields}\n")
        return inventory.load(file).hosts["a"]

    return load


def test_paths_are_beside_the_inventory(beside, tmp_path):
    host = beside("site: {ca: ca.pem}")
    assert host.site.ca == tmp_path / "site" / "ca.pem"
    assert host.site.ca_text == "-----BEGIN CERTIFICATE-----\n"
    assert beside("ssh_config: config").ssh_config == tmp_path / "site" / "config"


def test_paths_may_be_absolute_or_at_home(beside, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert beside(f"ssh_config: {tmp_path}/config").ssh_config == tmp_path / "config"
    assert beside("ssh_config: ~/config").ssh_config == tmp_path / "config"


def test_a_ca_of_the_defaults_is_beside_the_inventory_for_every_host(tmp_path):
    (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\n")
    text = "default: a\ndefaults: {stack: one, site: {ca: ca.pem}}\nhosts:\n  a: {}\n  b: {}\n"
    hosts = inventory.parse(text, "inventory.yaml", tmp_path).hosts.values()
    assert {host.site.ca for host in hosts} == {tmp_path / "ca.pem"}


def test_a_file_without_certificates_is_no_ca(beside):
    with pytest.raises(UsageError, match=r"hosts\.a\.site\.ca: .*not a PEM file"):
        beside("site: {ca: no.pem}")


KEY = "SHA256:" + "A" * 43


def test_a_host_of_this_computer_and_one_with_a_key():
    assert parsed("default: a\nhosts: {a: {stack: one, connection: local}}").hosts["a"].connection
    host = parsed(f"default: a\nhosts: {{a: {{stack: one, host_key: '{KEY}'}}}}").hosts["a"]
    assert (host.connection, host.host_key) == ("ssh", KEY)
