"""The only room that prints. Colour never alone carries meaning; JSON stands alone on stdout."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from provision.checks.finding import Finding
from provision.errors import ProvisionError
from provision.facts import Absent, Facts, Unknown
from provision.plan import (
    Action,
    Apt,
    Keyring,
    Plan,
    Reboot,
    Round,
    Run,
    Seal,
    Switch,
    Unpack,
    Write,
    change_data,
)
from provision.transport import Cost

MARKS = {"change": ("~", "yellow"), "reboot": ("↻", "magenta"), "blocked": ("!", "red")}


class Report:
    """Lines for people; with `json` they go to stderr, so that stdout holds data alone."""

    def __init__(self, *, json: bool = False, verbose: bool = False) -> None:
        self.verbose = verbose
        self._console = Console(stderr=json, highlight=False, soft_wrap=True)
        self._planned: set[str] = set()

    def say(self, host: str, text: str, style: str = "") -> None:
        """One line about a host."""
        self._console.print(Text.assemble((f"{host}  ", "bold"), (text, style)))

    def data(self, value: object) -> None:
        """JSON on stdout."""
        sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")

    def error(self, error: ProvisionError) -> None:
        """What happened and what to do, on stderr."""
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        console.print(Text.assemble(("error: ", "bold red"), error.what))
        for line in getattr(error, "log", ()):
            console.print(Text(f"  | {line}", "dim"))
        if error.hint:
            console.print(Text.assemble(("\nhint: ", "bold"), error.hint))

    def plan(self, plan: Plan, *, commands: bool = False, now_only: bool = False) -> None:
        """The rounds of a plan: the first can be carried out, the others are expected."""
        if plan.empty:
            self.say(plan.host, f"nothing to do: as stack {plan.stack} wants", "green")
        for number, one in enumerate(plan.rounds, 1):
            when = "now" if number == 1 else "expected then"
            count = f"{len(one.changes)} change{'s' if len(one.changes) > 1 else ''}"
            self.say(plan.host, f"round {number} of {len(plan.rounds)}, {when}: {count}", "bold")
            self._round(one, commands=commands and number == 1)
            if now_only:
                return
        for change in plan.awaited:
            self._line("…", "cyan", f"{change.subject}: awaited: {change.awaited}")

    def _round(self, one: Round, *, commands: bool) -> None:
        for change in one.changes:
            kind = "blocked" if change.blocked else "reboot" if change.reboots else "change"
            mark, style = MARKS[kind]
            if change.blocked:
                self._line(mark, style, f"{change.id}: can't be planned: {change.blocked}")
                if change.hint:
                    self._line(" ", "", f"  hint: {change.hint}")
                continue
            self._line(mark, style, f"{change.id}: {change.before} → {change.after}")
            self._line(" ", "dim", f"  because {change.why}")
            if commands:
                for action in change.actions:
                    for line in action_lines(action, whole=self.verbose):
                        self._line(" ", "dim", f"    {line}")

    def _line(self, mark: str, style: str, text: str) -> None:
        self._console.print(Text.assemble("  ", (mark, style), f" {text}"))

    def event(self, host: str, event: Mapping[str, Any]) -> None:
        """One step of the loop or of a run on the host."""
        match event["event"]:
            case "planned":
                plan = event["plan"]
                self.plan(plan, commands=self.verbose, now_only=plan.host in self._planned)
                self._planned.add(plan.host)
            case "joining":
                since = time.strftime("%H:%M:%S", time.localtime(event["since"]))
                self.say(host, f"run {event['run']} of {event['who']} is going on since {since}")
            case "start":
                self.say(host, f"run {event['run']} started", "dim")
            case "output" if self.verbose:
                self._line("|", "dim", event["line"])
            case "done":
                self._line("✓", "green", f"{event['id']}  {event['seconds']:.1f} s")
            case "failed":
                self._line("✗", "red", f"{event['id']}: {event['reason']}")
            case "uploading":
                self.say(host, f"uploading {event['bytes'] / 1e6:.1f} MB")
            case "reconnecting":
                self.say(host, f"{event['reason']}; the run goes on there, connecting again")
            case "rebooting":
                self.say(host, "rebooting", "magenta")
            case "back":
                self.say(host, f"back after {event['seconds']:.1f} s")

    def differences(self, host: str, saved: Mapping[str, Any], fresh: Plan) -> None:
        """How a saved plan and a fresh one differ."""
        self.say(host, "the host gives another plan than the saved one; nothing was done", "red")
        before = {change["id"]: change["actions"] for change in next(iter(saved["rounds"]), [])}
        now = {c.id: change_data(c)["actions"] for c in fresh.now.changes}
        for name in sorted(before.keys() | now.keys()):
            if before.get(name) == now.get(name):
                continue
            where = "in both, with other actions"
            if name not in now:
                where = "in the saved plan alone"
            elif name not in before:
                where = "in the fresh plan alone"
            self._line("≠", "red", f"{name}: {where}")

    def cost(self, host: str, cost: Cost) -> None:
        """What the host was charged."""
        self.say(host, f"{cost.sessions} SSH session(s), {cost.execs} command(s)", "dim")

    def findings(self, host: str, rows: Sequence[Finding]) -> None:
        """What is not as expected, each with its action; and how many rows are."""
        wrong = [row for row in rows if not row.ok]
        for row in rows if self.verbose else wrong:
            mark, style = ("✓", "green") if row.ok else ("✗", "red")
            text = f"{row.id} {row.subject}: expected {row.expected}, found {row.observed}"
            self._line(mark, style, text)
            if not row.ok:
                self._line(" ", "", f"  {row.reason} → {row.action.value}")
        verdict = f"{len(rows) - len(wrong)} of {len(rows)} checks as expected"
        self.say(host, verdict, "red" if wrong else "green")

    def facts(self, host: str, facts: Facts) -> None:
        """What the probe saw, a line per collector."""
        table = Table("fact", "value", title=host, title_justify="left", show_edge=False)
        for name in Facts.__dataclass_fields__:
            answer = getattr(facts, name)
            match answer:
                case Absent():
                    table.add_row(name, Text("absent", "dim"))
                case Unknown(reason=reason):
                    table.add_row(name, Text(f"unknown: {reason}", "red"))
                case _:
                    table.add_row(name, Text(summary(answer)))
        self._console.print(table)


def action_lines(action: Action, *, whole: bool) -> list[str]:
    """An action as commands and files; `whole` adds the content of files."""
    match action:
        case Write():
            content = action.content.splitlines() if whole else []
            size = len(action.content.encode())
            return [f"write {action.path} ({size} bytes, mode {action.mode:04o})"] + [
                f"  {line}" for line in content[:40]
            ]
        case Run():
            env = [f"{name}={value}" for name, value in action.env.items()] if whole else []
            return ["$ " + " ".join([*env, *action.argv])]
        case Keyring():
            return [f"fetch {action.url}", f"  hold its key to {action.fingerprint}, install it"]
        case Apt():
            return ["$ " + " ".join(action.argv), *_apt_lines(action, whole=whole)]
        case Unpack():
            return [f"unpack {action.member} of the uploaded wheel to {action.path}"]
        case Seal():
            return [f"hold the files of {action.release} to their RECORD"]
        case Switch():
            return [f"point {action.link} to {action.target}"]
        case Reboot():
            return ["$ systemctl reboot"]


def _apt_lines(action: Apt, *, whole: bool) -> list[str]:
    if action.install is None:
        return ["  apt is asked when its round comes"]
    names = sorted(action.install)
    lines = [f"  installs {len(names)}: {', '.join(names if whole else names[:8])}"]
    lines[0] += "" if whole or len(names) <= 8 else ", …"
    removed = ", ".join(f"{name} {version}" for name, version in action.remove.items())
    return [*lines, f"  removes {removed or 'nothing'}"]


def summary(answer: object) -> str:
    """A fact in one line."""
    if isinstance(answer, dict):
        shown = ", ".join(f"{key}: {_short(value)}" for key, value in list(answer.items())[:6])
        return shown + (f", … ({len(answer)})" if len(answer) > 6 else "")
    if isinstance(answer, list):
        return f"{len(answer)}: " + "; ".join(_short(item) for item in answer[:2])
    return _short(answer)


def _short(value: object) -> str:
    fields = getattr(value, "__dataclass_fields__", None)
    if fields is None:
        text = str(value)
    else:
        text = ", ".join(f"{name} {_short(getattr(value, name))}" for name in fields)
    return text if len(text) <= 160 else text[:159] + "…"
