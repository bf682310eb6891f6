"""Tasks: bring GPU hosts to their stack, and check that they are there.

Every task takes --host NAME (repeatable) and --group NAME from inventory.yaml; without either
it works on the inventory's default host.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

from invoke import Collection, Exit, task
from invoke.main import program

# Invoke switches bytecode off unless told --write-pyc; compiling everything anew at each start
# costs more than all of a no-op's own work.
sys.dont_write_bytecode = False

HELP = {
    "host": "a host of inventory.yaml (repeatable; without it the inventory's default)",
    "group": "all hosts of a group (repeatable)",
    "json": "data on stdout, everything else on stderr",
    "accept-new-host-key": "trust hosts whose SSH key is not known yet, and remember it; "
    "a changed key still stops the run",
    "wait": "when a run is going on there, let it end first",
    "verbose": "show commands, file contents and their output",
}


NAMES = ("--host", "--group", "--upgrade")
"""Options that may stand several times."""


@task
def named(_):
    """Refuse an option without its name, which Invoke passes over where it may stand again.

    `--host $UNSET` would work on the default host.
    """
    for word, after in pairwise([*program.argv, "-"]):
        if word in NAMES and after.startswith("-"):
            from provision.errors import UsageError
            from provision.fleet import refused
            from provision.report import Report

            json = "--json" in program.argv
            error = UsageError(f"{word} needs a name", hint="see: invoke --help TASK")
            raise Exit(code=refused(Report(json=json), error, json=json))


def hosts_task(*options, **more):
    """A task on hosts of the inventory, with the options named."""
    texts = {name: HELP[name] for name in ("host", "group", *options)}
    return task(named, iterable=["host", "group"], auto_shortflags=False, help=texts | more)


def end(code):
    """Leave with an exit code; 0 is the ordinary end."""
    if code:
        raise Exit(code=code)


@hosts_task(
    "json",
    "verbose",
    "accept-new-host-key",
    build="first build the wheels that the hosts' stacks want and nobody has built",
)
def provision(
    _,
    host=None,
    group=None,
    build=False,
    json=False,
    verbose=False,
    accept_new_host_key=False,
):
    """Bring hosts to their stack, reboots included, until nothing is left; then verify."""
    from provision.commands import hosts

    if build:
        from wheels import commands

        end(commands.awaited(host or (), group or (), json=json, verbose=verbose))
    end(
        hosts.provision(
            host or (), group or (), json=json, verbose=verbose, accept_new=accept_new_host_key
        )
    )


@hosts_task(
    "json",
    "verbose",
    "accept-new-host-key",
    output="save the plan of one host to a file, for `apply`",
)
def plan(_, host=None, group=None, json=False, verbose=False, output="", accept_new_host_key=False):
    """Show what provision would do, and change nothing."""
    from provision.commands import hosts

    file = Path(output) if output else None
    end(
        hosts.plan(
            host or (),
            group or (),
            json=json,
            verbose=verbose,
            output=file,
            accept_new=accept_new_host_key,
        )
    )


@task(
    auto_shortflags=False,
    help={
        "file": "made by `invoke plan --output FILE`",
        "json": HELP["json"],
        "verbose": HELP["verbose"],
        "wait": HELP["wait"],
    },
)
def apply(_, file, json=False, verbose=False, wait=False):
    """Carry out the first round of a saved plan, if the host still gives the same plan."""
    from provision.commands import hosts

    end(hosts.apply(Path(file), json=json, verbose=verbose, wait=wait))


@hosts_task("json")
def cancel(_, host=None, group=None, json=False):
    """Ask a run that goes on to stop before its next change; what it did stays."""
    from provision.commands import runs

    end(runs.cancel(host or (), group or (), json=json))


@hosts_task(
    "json",
    "verbose",
    "wait",
    driver="go back to the driver before, from the packages that were kept of it",
    plan="show what would be done, and change nothing",
)
def rollback(
    _, host=None, group=None, driver=False, plan=False, json=False, verbose=False, wait=False
):
    """Switch hosts back to the environments that they had before, or to the driver before."""
    from provision.commands import runs

    end(
        runs.rollback(
            host or (),
            group or (),
            driver=driver,
            plan=plan,
            json=json,
            verbose=verbose,
            wait=wait,
        )
    )


@hosts_task("json", run="one run in full, by its name")
def history(_, host=None, group=None, run="", json=False):
    """Show what was done on hosts, when and by whom, as their journals have it."""
    from provision.commands import runs

    end(runs.history(host or (), group or (), run=run, json=json))


@hosts_task(
    "json",
    "verbose",
    record_baseline="first take each host as it is for right: its cards, slots, links, limits",
    active="also make the GPUs work: kernels, copies, all-reduces; they must be idle",
    python="interpreter with torch for --active, instead of an environment's",
)
def verify(
    _,
    host=None,
    group=None,
    json=False,
    verbose=False,
    record_baseline=False,
    active=False,
    python="",
):
    """Check hosts against their stack and expected hardware; exit 3 when something differs."""
    from provision.commands import hosts

    end(
        hosts.verify(
            host or (),
            group or (),
            json=json,
            verbose=verbose,
            record_baseline=record_baseline,
            active=active,
            python=python,
        )
    )


@hosts_task("json")
def topology(_, host=None, group=None, json=False):
    """Show how a host's GPUs are joined, and what that means for serving on them."""
    from provision.commands import hosts

    end(hosts.topology(host or (), group or (), json=json))


@hosts_task("json")
def facts(_, host=None, group=None, json=False):
    """Show what the probe sees of hosts."""
    from provision.commands import hosts

    end(hosts.facts(host or (), group or (), json=json))


@task(
    named,
    iterable=["upgrade"],
    auto_shortflags=False,
    help={
        "stack": "one stack (without it all)",
        "environment": "one environment (without it all)",
        "recipe": "the build environment of one recipe instead",
        "upgrade": "let a distribution move that the lock holds (repeatable)",
        "check": "resolve nothing; exit 3 when a lock is not what its stack asks for (offline)",
        "json": HELP["json"],
    },
)
def lock(_, stack="", environment="", recipe="", upgrade=None, check=False, json=False):
    """Lock environments: every version with its hashes, from the stack's requirements."""
    from provision.commands import lock as locking
    from wheels.commands import hold_recipes, lock_recipe

    if recipe:
        others = {"--stack": stack, "--environment": environment, "--upgrade": upgrade}
        beside = [option for option, value in others.items() if value]
        end(lock_recipe(recipe, beside, check=check, json=json))
        return
    more = {"recipes": hold_recipes} if check and not stack else {}
    end(locking.lock(stack, environment, upgrade or (), check=check, json=json, more=more))


@task(
    named,
    iterable=["host"],
    auto_shortflags=False,
    help={
        "stack": "one stack (without it all; with --host what the inventory says)",
        "host": "hold it to what this host is, too (repeatable); one SSH session, no changes",
        "json": HELP["json"],
    },
)
def check_stack(_, stack="", host=None, json=False):
    """Tell whether a stack's parts go together; exit 3 when two can't."""
    from provision.commands import check_stack as checking

    end(checking.check_stack(stack, host or (), json=json))


@hosts_task(fresh="throw away what the host was, and start from a bare one")
def up(_, host=None, group=None, fresh=False):
    """Make and boot lab hosts on this computer (Linux, root); their GPUs are simulated."""
    from provision.commands import lab

    end(lab.up(host or (), group or (), fresh=fresh))


@hosts_task(discard="also throw away its disk")
def down(_, host=None, group=None, discard=False):
    """Shut lab hosts down."""
    from provision.commands import lab

    end(lab.down(host or (), group or (), discard=discard))


@task(auto_shortflags=False, help={"json": HELP["json"]})
def status(_, json=False):
    """Show the lab hosts that there are."""
    from provision.commands import lab

    end(lab.status(json=json))


@task(auto_shortflags=False, help={"host": "a lab host", "command": "what to run there"})
def ssh(_, host="lab", command=""):
    """Log in to a lab host."""
    from provision.commands import lab

    end(lab.ssh(host, command))


BUILD = {
    "host": "the host that builds (without it the inventory's `builder`, else its default)",
    "plan": "show what would be built, in how much memory and time, and change nothing",
    "force": "build it even where the wheelhouse has it",
    "budget": "memory for the compilers, such as 64GiB (without it what the host can give)",
    "no-gate": "let the build start a fixed number of compilers, as many as always fit",
    "json": HELP["json"],
    "verbose": HELP["verbose"],
}


def build_task(**more):
    """A task that builds a wheel."""
    return {"iterable": ["host"], "auto_shortflags": False, "help": BUILD | more}


def built(recipe, host, plan, force, budget, no_gate, json, verbose):
    """Build a recipe's wheel, and leave with the exit code."""
    from wheels import commands

    end(
        commands.make(
            recipe,
            host or (),
            plan=plan,
            force=force,
            budget=budget,
            gate=not no_gate,
            json=json,
            verbose=verbose,
        )
    )


@task(named, name="build", default=True, **build_task(recipe="a recipe of wheels/recipes"))
def build(
    _,
    recipe="",
    host=None,
    plan=False,
    force=False,
    budget=None,
    no_gate=False,
    json=False,
    verbose=False,
):
    """Build a CUDA wheel against exactly the stack's torch, within the host's memory."""
    built(recipe, host, plan, force, budget, no_gate, json, verbose)


@task(named, **build_task())
def build_flash_attn(
    _,
    host=None,
    plan=False,
    force=False,
    budget=None,
    no_gate=False,
    json=False,
    verbose=False,
):
    """Build flash-attn: `build --recipe flash-attn`."""
    built("flash-attn", host, plan, force, budget, no_gate, json, verbose)


@task(
    auto_shortflags=False,
    help={
        "wheel": "a wheel of the wheelhouse, or another's path (without it the newest)",
        "output": "the page (without it beside the wheel)",
    },
)
def report(_, wheel="", output=""):
    """Draw how a wheel was built, from its provenance: one HTML page."""
    from wheels import commands

    end(commands.draw(wheel, Path(output) if output else None))


@task(name="list", auto_shortflags=False, help={"json": HELP["json"]})
def list_(_, json=False):
    """Show the wheels that were built."""
    from wheels import commands

    end(commands.listed(json=json))


@task(name="verify", auto_shortflags=False, help={"json": HELP["json"]})
def verify_wheels(_, json=False):
    """Hold every built wheel to its manifest; exit 3 when one is damaged or gone."""
    from wheels import commands

    end(commands.verify(json=json))


@task(
    auto_shortflags=False,
    help={
        "plan": "show what would be removed",
        "yes": "remove it without asking",
        "json": HELP["json"],
    },
)
def prune(_, plan=False, yes=False, json=False):
    """Remove built wheels that no stack's lock takes, after showing them and asking."""
    from wheels import commands

    end(commands.prune(plan=plan, yes=yes, json=json))


@hosts_task("json")
def push(_, host=None, group=None, json=False):
    """Copy built wheels to the hosts whose stacks want them, each once."""
    from wheels import commands

    end(commands.push(host or (), group or (), json=json))


namespace = Collection(
    *(provision, plan, apply, cancel, rollback, history, verify, topology, facts),
    *(lock, check_stack, build_flash_attn),
)
namespace.add_collection(Collection("build", build, report))
namespace.add_collection(Collection("wheels", list_, verify_wheels, prune, push))
namespace.add_collection(Collection("lab", up, down, status, ssh))
