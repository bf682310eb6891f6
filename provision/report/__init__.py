"""The only room that prints. Colour never alone carries meaning; JSON stands alone on stdout."""

from __future__ import annotations

import json
import select
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from provision import TOOL
from provision.errors import FAILED, ProvisionError
from provision.plan import Plan, Round
from provision.report.actions import action_lines
from provision.report.live import Progress
from provision.report.plain import Screen, in_utf8, plain, plain_json, silence, unwritable
from provision.transport import Cost

if TYPE_CHECKING:
    from provision.checks.finding import Finding  # read while the login is under way
    from provision.compatibility.row import Row
    from provision.facts import Facts, Topology
    from provision.history import Past

RESULTS = {0: "done", 1: "failed", 2: "wrong input", 3: "differs", 130: "cancelled"}
PIPE = 10_000
"""Columns where nobody looks at a terminal: more than any table needs."""
SIDE = 120
"""Characters of what was or will be, before it is cut short."""
MARKS = {"change": ("~", "yellow"), "reboot": ("↻", "magenta"), "blocked": ("!", "red")}

RULE_MARKS = {"ok": ("✓", "green"), "violated": ("✗", "red"), "unknown": ("?", "yellow")}


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """How the work on one host ended."""

    host: str
    code: int
    seconds: float
    error: ProvisionError | None = None


class Report:
    """Lines for people; with `json` they go to stderr, so that stdout holds data alone."""

    def __init__(self, *, json: bool = False, verbose: bool = False) -> None:
        self.verbose = verbose
        in_utf8(sys.stdout)
        in_utf8(sys.stderr)
        self._console = Screen(stderr=json, highlight=False)
        if not self._console.is_terminal:  # lines and tables stay whole in a pipe
            self._console.soft_wrap, self._console.width = True, PIPE
        self._rounds: dict[str, int] = {}
        self._many = False
        self._progress = Progress(self._console)

    def working(self, hosts: Sequence[str]) -> AbstractContextManager[object]:
        """While work goes on: on a terminal a live line per host stands below everything.

        With several hosts every line names its own; their errors come at the end, together.
        """
        self._many = len(hosts) > 1
        return self._progress.shown(hosts)

    def say(self, host: str, text: str, style: str = "") -> None:
        """One line about a host."""
        self._console.print(Text.assemble((f"{host}  ", "bold"), (plain(text), style)))

    def data(self, value: object) -> None:
        """JSON on stdout. Raises SystemExit, after an error, where it can't be written."""
        try:
            text = json.dumps(value, indent=2, ensure_ascii=False)
            sys.stdout.write(plain_json(text) + "\n")
            sys.stdout.flush()
        except OSError as error:
            silence(sys.stdout)
            if isinstance(error, BrokenPipeError):  # whoever read it has enough
                return
            self.error(unwritable(error))
            raise SystemExit(FAILED) from error

    def error(self, error: ProvisionError) -> None:
        """What happened and what to do, on stderr."""
        console = Screen(stderr=True, highlight=False, soft_wrap=True)
        lines = [Text.assemble(("error: ", "bold red"), plain(error.what))]
        lines += [Text(f"  | {plain(str(line))}", "dim") for line in getattr(error, "log", ())]
        lines += [Text.assemble(("\nhint: ", "bold"), plain(error.hint))] if error.hint else []
        console.print(Text("\n").join(lines))

    def plan(self, plan: Plan, *, commands: bool = False, now_only: bool = False) -> None:
        """The rounds of a plan: the first can be carried out, the others are expected."""
        if plan.empty:
            self.say(plan.host, f"nothing to do: as stack {plan.stack} wants", "green")
        host = plan.host
        done = self._rounds.get(host, 0)
        for number, one in enumerate(plan.rounds, done + 1):
            when = "now" if one is plan.now else "expected then"
            count = f"{len(one.changes)} change{'s' if len(one.changes) > 1 else ''}"
            total = done + len(plan.rounds)
            self.say(plan.host, f"round {number} of {total}, {when}: {count}", "bold")
            self._round(host, one, commands=commands and one is plan.now)
            if now_only:
                return
        for change in plan.awaited:
            self._line(host, "…", "cyan", f"{change.subject}: awaited: {change.awaited}")
            if change.hint:
                self._line(host, " ", "dim", f"  build it: {change.hint}")

    def _round(self, host: str, one: Round, *, commands: bool) -> None:
        for change in one.changes:
            kind = "blocked" if change.blocked else "reboot" if change.reboots else "change"
            mark, style = MARKS[kind]
            if change.blocked:
                self._line(host, mark, style, f"{change.id}: can't be planned: {change.blocked}")
                if change.hint:
                    self._line(host, " ", "", f"  hint: {change.hint}")
                continue
            before, after = self._brief(change.before), self._brief(change.after)
            self._line(host, mark, style, f"{change.id}: {before} → {after}")
            self._line(host, " ", "dim", f"  because {change.why}")
            if commands:
                for action in change.actions:
                    for line in action_lines(action, whole=self.verbose):
                        self._line(host, " ", "dim", f"    {line}")

    def _brief(self, text: str) -> str:
        """A side of a change in a line that can be read; whole with --verbose."""
        if self.verbose or len(text) <= SIDE:
            return text
        return f"{text[: SIDE - 2].rpartition(', ')[0] or text[: SIDE - 2]}, …"

    def _line(self, host: str, mark: str, style: str, text: str) -> None:
        lead = (f"{host}  ", "bold") if self._many else ""
        self._console.print(Text.assemble(lead, "  ", (mark, style), f" {plain(text)}"))

    def event(self, host: str, event: Mapping[str, Any]) -> None:
        """One step of the loop or of a run on the host."""
        self._progress.event(host, event)
        match event["event"]:
            case "planned":
                plan = event["plan"]
                self.plan(plan, commands=self.verbose, now_only=host in self._rounds)
                self._rounds[host] = self._rounds.get(host, 0) + 1
            case "joining":
                since = time.strftime("%H:%M:%S", time.localtime(event["since"]))
                self.say(host, f"run {event['run']} of {event['who']} is going on since {since}")
            case "start":
                log = f"/var/log/{TOOL}/{event['run']}.log"
                self.say(host, f"run {event['run']} started; its log on the host: {log}", "dim")
            case "output" if self.verbose:
                self._line(host, "|", "dim", event["line"])
            case "waiting":
                self._line(host, "…", "cyan", event["reason"])
            case "done":
                self._line(host, "✓", "green", f"{event['id']}  {event['seconds']:.1f} s")
            case "failed":
                self._line(host, "✗", "red", f"{event['id']}: {event['reason']}")
            case "building" if event["kept"] or (event["now"] and not self._console.is_terminal):
                self._line(host, "…", "cyan", event["text"])
            case "stale":
                self.say(host, f"{event['reason']}: planning anew")
            case "fetching":
                self.say(host, f"fetching {event['what']}")
            case "uploading":
                self.say(host, f"uploading {_size(event['bytes'])}")
            case "reconnecting":
                self.say(host, f"{event['reason']}; connecting again")
            case "cancelling":
                self.say(host, "asked to stop before the next change", "yellow")
            case "rebooting":
                self.say(host, "rebooting", "magenta")
            case "other-kernel":
                text = f"came back with kernel {event['kernel']} instead of {event['expected']}"
                self.say(host, text, "yellow")
            case "back":
                self.say(host, f"back after {event['seconds']:.1f} s")

    def done(self, host: str) -> None:
        """Nothing more will be said of a host."""
        self._progress.done(host)

    def outcomes(self, rows: Sequence[Outcome]) -> None:
        """How it ended for each of several hosts."""
        table = Table("host", "result", "time", show_edge=False, title_justify="left")
        for row in rows:
            style = "green" if row.code == 0 else "red"
            said = plain(row.error.what.splitlines()[0]) if row.error else RESULTS[row.code]
            table.add_row(row.host, Text(said, style), f"{row.seconds:.1f} s")
        self._console.print(table)

    def differences(self, host: str, rows: Mapping[str, str]) -> None:
        """How a saved plan and a fresh one differ, by change."""
        self.say(host, "the host gives another plan than the saved one; nothing was done", "red")
        for name, where in rows.items():
            self._line(host, "≠", "red", f"{name}: {where}")

    def cost(self, host: str, cost: Cost) -> None:
        """What the host was charged."""
        self.say(host, f"{cost.sessions} SSH session(s), {cost.execs} command(s)", "dim")

    def findings(self, host: str, rows: Sequence[Finding]) -> None:
        """What is not as expected, each with its action; and how many rows are."""
        from provision.checks.finding import Action, advice, worst  # while the login is under way

        wrong = [row for row in rows if not row.ok]
        for row in rows if self.verbose else wrong:
            mark, style = ("✓", "green") if row.ok else ("✗", "red")
            if row.action is Action.IGNORE:
                mark, style = "·", "cyan"
            self._line(host, mark, style, f"{row.id}  {row.prose}")
            if not row.ok:
                self._line(host, " ", "", f"  {row.reason} → {row.action.value}")
        verdict = f"{len(rows) - len(wrong)} of {len(rows)} checks as expected"
        then = f"; {advice(rows)}" if wrong else ""
        harmless = worst(rows) in (Action.NONE, Action.IGNORE)
        self.say(host, f"{verdict}{then}", "green" if harmless else "red")

    def ask(self, question: str) -> str:
        """The user's answer. Raises EOFError where nobody can be asked."""
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise EOFError
        sys.stderr.write(f"\n{question}")
        sys.stderr.flush()
        # In short waits: a Ctrl-C that comes just before a read would not end it.
        while not select.select([sys.stdin], [], [], 0.2)[0]:
            pass
        return sys.stdin.readline()

    def history(self, host: str, runs: Sequence[Past], *, whole: bool) -> None:
        """A host's runs, the latest at the end; `whole` shows their changes, too."""
        from provision.report.history import lines

        if not runs:
            self.say(host, "its journal has no run")
        for past in runs:
            for line in lines(past, whole=whole):
                self._console.print(Text.assemble((f"{host}  ", "bold"), line))

    def rules(self, name: str, rows: Sequence[Row]) -> None:
        """Each rule with both its sides; of a violated one what would happen, and what to do."""
        for row in rows:
            mark, style = RULE_MARKS[row.verdict.value]
            note = f" ({row.reason})" if row.reason else ""
            text = f"{row.rule}: {row.left}; {row.right}{note}"
            self._line(name, mark, style, text)
            if row.hint:
                self._line(name, " ", "", f"  hint: {row.hint}  [{row.source}]")
        count = Counter(row.verdict.value for row in rows)
        verdict = ", ".join(f"{count[one]} {one}" for one in RULE_MARKS if count[one])
        self.say(name, verdict, "red" if count["violated"] else "green")

    def topology(
        self, host: str, topology: Topology, numbers: Sequence[int], missing: Sequence[str]
    ) -> None:
        """How its GPUs are joined, which are missing, and what that means."""
        from provision.report.topology import drawing

        self._console.print(drawing(host, topology, numbers, missing))

    def facts(self, host: str, facts: Facts) -> None:
        """What the probe saw, a line per collector."""
        from provision.report.facts import table

        self._console.print(table(host, facts))


def _size(count: int) -> str:
    """Bytes as people read them."""
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"
