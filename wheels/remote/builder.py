"""Builds one wheel on a build host, in a tree that is kept: what is finished is never made again.

Its output is the build's own; lines that begin with MARK are for whoever follows.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from provision.remote.collectors.memory import available, pressure
from provision.remote.command import ENV, Failed
from provision.remote.lock import active, cancelled
from wheels.remote import label, records, tree, trial
from wheels.remote.server import Server

MARK = "@build "
BACKEND = """\
import importlib, sys
sys.path.insert(0, ".")
module, _, of = sys.argv[1].partition(":")
backend = importlib.import_module(module)
backend = getattr(backend, of) if of else backend
print(backend.build_wheel(sys.argv[2]))
"""
"""What a PEP 517 frontend does, without one: the build host's environment has all it needs."""
ASK = """\
import importlib.metadata as m, json, sys, sysconfig
names = sys.argv[1:]
found = {n: m.version(n) for n in names}
site = str(m.distribution(names[0]).locate_file("")) if names else sysconfig.get_path("purelib")
print(json.dumps({"versions": found, "site": site}))
"""
GATE = """\
#!/usr/bin/python3 -I
import sys
sys.path.insert(0, {code!r})
from wheels.remote.gate import main
sys.exit(main(sys.argv[1:]))
"""
LONGEST = 4000
"""Characters of a line of output that are looked through."""
REASON = 400
"""Characters of a failure's reason: the run's journal keeps lines of 500."""


def main(path: str) -> int:
    """Carry out the order in a file; the exit status."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        build(json.loads(Path(path).read_text(encoding="utf-8")), Path(path).parent)
    except Failed as failure:
        say({"event": "failed", "reason": str(failure)[:REASON]})
        return 1
    return 0


def say(event: Mapping[str, Any]) -> None:
    """Tell whoever follows the build."""
    _write(f"{MARK}{json.dumps(event)}\n")


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def build(order: dict[str, Any], folder: Path) -> None:
    """Build, pin and prove the wheel; it lies in `folder`/done with its manifest. Raises Failed."""
    start = time.time()
    tree.link(Path(order["home"]), order["links"])
    compiler = _compiler(order)
    order["site"] = _environment(order)
    source = folder / "source"
    if _spent(folder / "done", order["spent"]):
        for path in (folder / "done", source):
            shutil.rmtree(path, ignore_errors=True)
        for name in ("units.jsonl", "memory.jsonl"):
            (folder / name).unlink(missing_ok=True)
    tree.unpack(folder / "source.tar.gz", source)
    made = folder / "made"
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    _compile(order, folder, source, made)
    wheels = list(made.glob("*.whl"))
    if len(wheels) != 1:
        raise Failed(f"the build made {len(wheels)} wheels, expected one")
    label.pin(wheels[0], order["pins"])
    say({"event": "proving", "wheel": wheels[0].name})
    proof = trial.inspect(wheels[0], order, folder / "trial")
    shutil.rmtree(folder / "trial", ignore_errors=True)
    report = {
        "file": wheels[0].name,
        "proof": proof,
        "host": _host(compiler),
        "start": round(start),
        "seconds": round(time.time() - start, 1),
        "units": records.read(folder / "units.jsonl"),
        "memory": records.read(folder / "memory.jsonl"),
    }
    done = folder / "done"
    shutil.rmtree(done, ignore_errors=True)
    (made / "report.json").write_text(json.dumps(report), encoding="utf-8")
    made.rename(done)
    say({"event": "built", "wheel": wheels[0].name, "size": (done / wheels[0].name).stat().st_size})


def _spent(done: Path, known: list[str]) -> bool:
    """Whether a build has ended whose wheel is one of these (sha256).

    Any other was asked for, and nobody was there any more to fetch it.
    """
    return any(hashlib.sha256(one.read_bytes()).hexdigest() in known for one in done.glob("*.whl"))


def _compiler(order: Mapping[str, Any]) -> str:
    """What nvcc says it is; it is of the release that the recipe names. Raises Failed."""
    nvcc = f"{order['home']}/bin/nvcc"
    try:
        said = subprocess.run(
            [nvcc, "--version"], capture_output=True, encoding="utf-8", check=False
        )
    except OSError as error:
        raise Failed(f"{nvcc} can't be run: {error.strerror}") from error
    found = re.search(r"\brelease (\d+\.\d+)", said.stdout)
    if not found or found[1] != order["release"]:
        there = f"is of release {found[1]}" if found else "does not say its release"
        raise Failed(f"{nvcc} {there}, the recipe wants {order['release']}")
    return (said.stdout.strip().splitlines() or [""])[-1]


def _environment(order: Mapping[str, Any]) -> str:
    """Where the distributions lie that the wheel is built against; they are of the right version.

    Raises Failed.
    """
    said = subprocess.run(
        [order["python"], "-c", ASK, *order["pins"]],
        capture_output=True,
        encoding="utf-8",
        env=ENV,
        check=False,
    )
    if said.returncode:
        last = (said.stderr.strip().splitlines() or ["it exits without a word"])[-1]
        raise Failed(f"{order['python']} has not what the wheel is built against: {last}")
    found = json.loads(said.stdout)
    for name, wanted in order["pins"].items():
        there = found["versions"][name]
        if there.partition("+")[0] != wanted.partition("+")[0]:
            raise Failed(f"{order['python']} has {name} {there}, the recipe wants {wanted}")
    return str(found["site"])


def _compile(order: Mapping[str, Any], folder: Path, source: Path, made: Path) -> None:
    """Run the build with all its compilers at the gate. Raises Failed."""
    code = str(Path(__file__).parents[2])
    gate = folder / "nvcc"
    gate.write_text(GATE.format(code=code), encoding="utf-8")
    gate.chmod(0o755)
    scratch = folder / "tmp"  # not /tmp, which may be memory
    scratch.mkdir(exist_ok=True)
    server = Server(folder, order, available, pressure, say) if order["gate"] else None
    env = {
        **ENV,
        **order["env"],
        "PATH": f"{Path(order['python']).parent}:{order['home']}/bin:{ENV['PATH']}",
        "HOME": os.environ.get("HOME", "/root"),
        "TMPDIR": str(scratch),
        "CUDA_HOME": order["home"],
        "PYTHONUNBUFFERED": "1",
    }
    nvcc = f"{order['home']}/bin/nvcc"
    if server:
        env |= {
            "PYTORCH_NVCC": str(gate),
            "FIRSTLIGHT_NVCC": nvcc,
            "FIRSTLIGHT_GATE": str(server.path),
        }
    argv = [order["python"], "-c", BACKEND, order["backend"], str(made)]
    log = folder / "build.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            argv, cwd=source, env=env, stdout=output, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            status = _watch(process, server, log, order["forbidden"])
        finally:
            if process.poll() is None:
                process.kill()
            if server:
                server.close()
    if status:
        raise Failed(server.trouble if server and server.trouble else _reason(log, status))


def _watch(
    process: subprocess.Popen[bytes], server: Server | None, log: Path, forbidden: list[str]
) -> int:
    """Follow the build to its end, passing its output on. Raises Failed at a forbidden word."""
    with log.open(encoding="utf-8", errors="replace") as output:
        while True:
            ended = process.poll()
            for line in output:
                _write(line if len(line) < LONGEST else f"{line[:LONGEST]}\n")
                for words in forbidden:
                    if words in line:
                        process.kill()
                        raise Failed(f"the build says {words!r}: what it makes is not wanted")
            if ended is not None:
                return ended
            if (run := active().get("run")) and cancelled(run):
                raise Failed("it was asked to stop; what was compiled stays")
            if server:
                server.turn()
            else:
                time.sleep(0.5)


def _reason(log: Path, status: int) -> str:
    """The first error in the build's output, or its last line."""
    lines = log.read_text(errors="replace", encoding="utf-8").splitlines()
    told = [line.strip() for line in lines if "error" in line.lower() and "$" not in line]
    last = told[0] if told else (lines or ["it said nothing"])[-1].strip()
    return f"the build exits {status}: {last[:300]}"


def _host(compiler: str) -> dict[str, Any]:
    return {
        "kernel": os.uname().release,
        "machine": os.uname().machine,
        "glibc": os.confstr("CS_GNU_LIBC_VERSION"),
        "nvcc": compiler,
        "processors": os.cpu_count(),
    }
