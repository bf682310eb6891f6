"""Data stay data: what the inventory and hosts say is one word of a command line, or is refused.

No shell stands between: every command is an argument vector. What is left is a word that a program
takes for an option, for a pattern, or for another name.
"""

import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from harmless import refused as told
from harmless import words_are_ours
from samples import REPOSITORY, WANT, installed, raw, refused
from spoilt import NASTY

from provision import facts, inventory, lab, planner
from provision.commands import lab as lab_commands
from provision.errors import UsageError
from provision.resources import headers
from provision.resources import site as site_resource
from provision.transport import address as address_module
from provision.transport.address import resolve

WORDS = (*NASTY, "-", "--", "-F", "-oPort=1", "a=b", "a,b", "[a]", "{a}", "a;b", "a|b", "a&b", "#a")
MINIMAL = "hostname h\nport 22\nuser root\n"


def parsed(tmp_path, **fields):
    """A host of an inventory with these fields; None where they are refused with their place."""
    tree = {"default": "a", "hosts": {"a": {"stack": "lab", **fields}}}
    try:
        # YAML has no other way to write a lone surrogate.
        found = inventory.parse(json.dumps(tree), "inventory.yaml", tmp_path)
    except UsageError as error:
        told(error, "inventory.yaml:1: ")
        return None
    return found.hosts["a"]


@pytest.fixture
def ssh_is_asked(monkeypatch):
    """The argument vectors of `ssh -G`."""
    asked = []

    def run(argv, **_options):
        asked.append(argv)
        return SimpleNamespace(returncode=0, stdout=MINIMAL, stderr="")

    monkeypatch.setattr(address_module.subprocess, "run", run)
    return asked


@pytest.mark.parametrize("field", ["address", "user", "ssh_config"])
def test_what_a_login_is_made_of_is_one_word_or_refused(tmp_path, ssh_is_asked, field):
    for word in WORDS:
        host = parsed(tmp_path, **{field: word})
        if host is None:
            continue
        resolve(host)
        options = ["-F", str(tmp_path / Path(word).expanduser())] if field == "ssh_config" else []
        options += ["-l", word] if field == "user" else []
        name = word if field == "address" else "a"
        assert ssh_is_asked.pop() == ["ssh", *options, "-G", "--", name]
        assert not name.startswith("-")


@pytest.mark.parametrize("field", ["stack", "host_key", "connection", "port"])
def test_what_is_a_name_or_a_number_is_nothing_else(tmp_path, field):
    for word in WORDS:
        host = parsed(tmp_path, **{field: word})
        assert host is None or (field, word) in (("stack", "none"), ("stack", "installed"), *SAFE)


SAFE = [("stack", word) for word in ("half-configured", "1.2", "1.2-3", "nvidia-x", "x" * 300)]
"""Names like any other; a stack of this name there is not."""


def test_a_host_s_own_name_is_one_word_or_refused(tmp_path, ssh_is_asked):
    for word in WORDS:
        tree = {"default": word, "hosts": {word: {"stack": "lab"}}}
        try:
            host = inventory.parse(json.dumps(tree), "inventory.yaml", tmp_path).hosts[word]
        except UsageError as error:
            told(error, "inventory.yaml:1: ")
            continue
        resolve(host)
        assert ssh_is_asked.pop() == ["ssh", "-G", "--", word]
        assert not word.startswith("-")


URLS = (
    *(f"http://h/{word}" for word in WORDS),
    *("http://user:secret@h/", "http://token@h/", "file:///x", "ftp://h/", "http://", "http://[h/"),
    *("http://h:80/", "http://[::1]:80/", "http://h:port/", "HTTP://H", "http://h\\x", "//h"),
)


def files(want):
    """Path → content of what is written for a site."""
    plan = planner.plan("h", want, raw())
    words_are_ours(plan)
    return {a.path: a.content for c in plan.now.changes for a in c.actions if a.do == "write"}


@pytest.mark.parametrize("url", URLS)
def test_an_index_stands_whole_in_uv_s_configuration_or_is_refused(tmp_path, url):
    host = parsed(tmp_path, site={"index": url})
    if host is not None:
        written = tomllib.loads(files(replace(WANT, site=host.site))[site_resource.UV])
        assert written["index"] == [{"url": url, "default": True}]
        assert "@" not in url.split("/")[2]


@pytest.mark.parametrize("url", URLS)
def test_a_proxy_stands_whole_in_every_configuration_or_is_refused(tmp_path, url):
    host = parsed(tmp_path, site={"proxy": url})
    if host is not None:
        written = files(replace(WANT, site=host.site))
        assert f'Acquire::http::Proxy "{url}";\n' in written[site_resource.APT]
        assert f'"HTTP_PROXY={url}" ' in written[site_resource.UNITS]
        assert not set(url) & set("\\\"'%$`@ \n")


@pytest.mark.parametrize("url", URLS)
def test_a_repository_is_no_part_of_a_command_line(tmp_path, url):
    repository = {"url": url, "fingerprint": REPOSITORY.fingerprint}
    host = parsed(tmp_path, repository=repository)
    if host is not None:
        plan = planner.plan("h", replace(WANT, repository=host.repository), raw())
        words_are_ours(plan)
        assert not set(url) & set("\\\"'$` \n")
        assert "@" not in url.split("/")[2]


# --- what hosts say ----------------------------------------------------------------------------


def planned(*promises):
    """The plan of a host that says so; None where that is no fact."""
    answer = raw(*promises)
    try:
        facts.parse(answer)
    except facts.WrongFacts:
        return None
    plan = planner.plan("h", WANT, answer)
    words_are_ours(plan)
    return plan


def names(plan):
    return {word for c in plan.now.changes for a in c.actions for word in getattr(a, "argv", ())}


@pytest.mark.parametrize(
    "name", ["{}-nvidia", "nvidia-{}", "nvidia:{}", "cuda-drivers-{}", "{}-13-1"]
)
def test_a_package_that_a_host_names_is_one_word_or_no_fact(name):
    for word in WORDS:
        plan = planned(
            installed(name.format(word), "580.1.1-1"), {"toolkits": {"installed": {"13.1": None}}}
        )
        assert plan is None or re.fullmatch(r"[A-Za-z0-9+._:-]+", name.format(word))


@pytest.mark.parametrize("fact", ["kernel", "next_kernel"])
def test_a_kernel_that_headers_can_t_be_named_after_blocks(fact):
    for word in WORDS:
        plan = planned({"boot": {fact: word}})
        if any(change.blocked for change in plan.now.changes):
            assert {change.subject for change in plan.now.blocked} >= {"kernel"}
        elif word:
            assert f"linux-headers-{word}" in names(plan)


@pytest.mark.parametrize("kernel", ["6.1.0-", "", "6.1 0", ".*", "-6.1", "6.1~rc1"])
def test_a_kernel_whose_headers_apt_would_take_for_something_else(kernel):
    reason = refused(headers, {"boot": {"kernel": kernel}})
    assert str(reason).endswith("has a name that no package of headers can have")
    assert reason.subject == "kernel"


@pytest.mark.parametrize("kernel", ["6.12.90+deb13-amd64", "5.10.0+", "6.1.0-rc1-x_y"])
def test_a_kernel_of_another_make_has_headers_like_any_other(kernel):
    assert f"linux-headers-{kernel}" in names(planned({"boot": {"kernel": kernel}}))


def test_versions_and_paths_of_a_host_are_no_words_of_a_command():
    for word in WORDS:
        planned(
            {"apt": {"policy": {"nvidia-open": {"candidate": word, "versions": {word: word}}}}},
            {"dpkg": {"packages": {"gcc": None}, "interrupted": True}},
            {"driver": {"loaded": word, "library": word}},
            {"environments": {"main": {"release": word, "lock": word, "releases": [word]}}},
            {"units": {"nvidia-persistenced.service": {"active": word, "enabled": word}}},
            {"uv": {word: word}},
        )


def test_a_lab_host_s_name_is_no_option_and_its_command_one_word(monkeypatch):
    there = SimpleNamespace(running=True, ssh_config="/c")
    started = []
    monkeypatch.setattr(lab, "find", lambda name: there)
    monkeypatch.setattr(
        lab_commands.subprocess,
        "run",
        lambda argv, check: started.append(argv) or SimpleNamespace(returncode=0),
    )
    lab_commands.ssh("-oProxyCommand=x", "echo; reboot")
    assert started == [["ssh", "-F", "/c", "--", "-oProxyCommand=x", "echo; reboot"]]
