"""Who gets into a lab host, and an sshd that is set up otherwise."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from provision import lab
from tests.lab.test_lab_host import Guest

NAME = "t-lab-access"


@pytest.fixture(scope="module")
def guest() -> Iterator[Guest]:
    spec = lab.LabSpec(name=NAME, suite="trixie", hardware="none")
    try:
        yield Guest(lab.up(spec, fresh=True, say=lambda _: None))
    finally:
        lab.down(NAME, discard=True)


class TestUsers:
    @pytest.mark.parametrize("user", ["root", "operator", "admin", "tty"])
    def test_the_labs_key_opens_every_user(self, guest: Guest, user: str) -> None:
        assert guest.run("id -un", "-l", user).stdout.strip() == user

    def test_operator_needs_no_password(self, guest: Guest) -> None:
        assert guest.run("sudo -n id -un", "-l", "operator").stdout.strip() == "root"

    def test_admin_is_asked(self, guest: Guest) -> None:
        refused = guest.run("sudo -n true", "-l", "admin")
        assert refused.returncode != 0
        assert "a password is required" in refused.stderr
        wrong = guest.run("sudo -S -p '' id -un", "-l", "admin", stdin="wrong\n")
        assert wrong.returncode != 0
        right = guest.run("sudo -S -p '' id -un", "-l", "admin", stdin=f"{lab.SUDO_PASSWORD}\n")
        assert right.stdout.strip() == "root"

    def test_tty_needs_a_terminal(self, guest: Guest) -> None:
        refused = guest.run("sudo -n true", "-l", "tty")
        assert "you must have a tty" in refused.stderr
        assert guest.run("sudo -n id -un", "-l", "tty", "-tt").stdout.strip() == "root"


class TestSshd:
    """In order: the last test leaves a host that its own client configuration refuses."""

    def test_a_variant_applies_at_once(self, guest: Guest) -> None:
        before = lab.sshd_sessions(NAME)
        lab.configure_sshd(NAME, "MaxStartups 3:30:10\nPerSourcePenalties authfail:1s\n")
        assert lab.sshd_sessions(NAME) == before
        assert "maxstartups 3:30:10" in guest.out("sshd -T")

    def test_lines_that_sshd_refuses_change_nothing(self, guest: Guest) -> None:
        with pytest.raises(lab.LabError, match="Bad configuration option: Nonsense"):
            lab.configure_sshd(NAME, "Nonsense yes\n")
        assert "maxstartups 3:30:10" in guest.out("sshd -T")

    def test_a_variant_is_taken_back(self, guest: Guest) -> None:
        for _ in range(6):  # more often than systemd lets a unit start
            lab.configure_sshd(NAME, "")
        assert "maxstartups 10:30:100" in guest.out("sshd -T")

    def test_another_host_key_is_refused(self, guest: Guest) -> None:
        public = lab.rekey(NAME)
        refused = guest.run("true")
        assert refused.returncode == 255
        assert "REMOTE HOST IDENTIFICATION HAS CHANGED" in refused.stderr
        folder = guest.host.ssh_config.parent
        assert public not in (folder / "known_hosts").read_text()
        (folder / "known_hosts").write_text(f"[127.0.0.1]:{guest.host.port} {public}\n")
        assert guest.out("echo known") == "known"

    def test_a_host_that_is_down_is_not_adjusted(self) -> None:
        with pytest.raises(lab.LabError, match="t-lab-nowhere isn't running"):
            lab.configure_sshd("t-lab-nowhere", "")
