"""Whether what was made of bad input can do no harm: on a terminal, or in a command line."""

import contextlib
import io
import json
import re

from provision import checks
from provision.plan import Apt, Run
from provision.report import Report
from provision.resources import apt_index, apt_packages, apt_pins
from provision.transport import Cost, Result

OPTIONS = {
    *(*apt_packages.REINSTALL, *apt_pins.PURGE, *apt_index.UPDATE),
    *("--allow-downgrades", "--allow-change-held-packages", "--configure", "-a", "--force-confdef"),
    *("--force-confold", "-u", "-k", "--now", "--python", "--no-deps", "--require-hashes"),
    *("--only-binary", "--requirements", "--wait", "-r", "--", "--fix-broken", "--no-index"),
    "--find-links",
}
"""Every word of a command line that begins with a dash, and is one of ours."""


@contextlib.contextmanager
def printing():
    """What reaches the terminal while the block runs can't do anything there."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        yield
    assert [c for c in said.getvalue() if not c.isprintable() and c != "\n"] == []
    assert "u:p@" not in said.getvalue()


def told(error, start="h: "):
    """An error of ours, as the user gets it."""
    assert error.what.startswith(start)
    with printing():
        Report().error(error)


def refused(error, start):
    """The same, of an error that is one line by itself."""
    assert error.what.isprintable()
    told(error, start)


def words_are_ours(plan):
    """What a host says can be neither an option nor several words."""
    for action in (a for one in plan.rounds for c in one.changes for a in c.actions):
        for word in action.argv if isinstance(action, Run | Apt) else ():
            assert word in OPTIONS or re.fullmatch(r"[A-Za-z0-9/:][A-Za-z0-9/:._+=~-]*", word), word


def shown(want, seen, plan):
    """Everything that is made of a host's facts, on its way to the terminal."""
    report = Report(verbose=True)
    with printing():
        report.plan(plan, commands=True)
        report.findings("h", checks.check(want, seen, plan))
        report.facts("h", seen)
        report.data(plan.to_data())


class Host:
    """Answers every request, with the words given or with what apt would say."""

    host = "h"

    def __init__(self, answers, spoil=lambda said: said, lines=()):
        self.cost = Cost()
        self.answers, self.spoil, self.lines = list(answers), spoil, lines
        self.asked = []

    def run(self, argv, stdin, *, deadline, root=False):
        if not stdin:
            return Result(exit=0, out="another-boot-id\n6.1.0\n", err="")
        request = json.loads(stdin[stdin.rindex(b'{"do"') :])
        self.asked.append(request)
        if request["do"] == "probe":
            return Result(exit=0, out=self.answers.pop(0), err="")
        said = {
            " ".join(words): {"install": {"gcc": [None, "1"]}, "remove": {}, "error": None}
            for words in request["transactions"]
        }
        return Result(exit=0, out=json.dumps(self.spoil(said)), err="")

    def follow(self, argv, stdin, *, silence):
        self.asked.append(json.loads(stdin[stdin.rindex(b'{"do"') :]))
        return iter(self.lines)

    def close(self):
        pass
