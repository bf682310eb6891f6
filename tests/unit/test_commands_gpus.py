"""Commands on GPUs: topology, what is recorded of a host, GPUs made to work."""

import dataclasses
import json

import pytest
from samples import TIMEOUT, WANT, probed, raw, seen

from provision import baseline, wire
from provision.checks.recorded import record
from provision.commands import hosts as commands

pytestmark = pytest.mark.usefixtures("an_inventory")

FINISHED = probed()


# --- topology, baseline ------------------------------------------------------------------------


def test_topology_for_people_and_as_json(hosts, capsys):
    hosts(a=[FINISHED], b=[FINISHED])
    assert commands.topology(["a"], [], json=False) == 0
    assert "→ tensor parallelism" in capsys.readouterr().out
    assert commands.topology(["b"], [], json=True) == 0
    data = json.loads(capsys.readouterr().out)["b"]
    assert data["links"] == [["X", "PIX"], ["PIX", "X"]]
    assert data["meaning"][0].startswith("tensor parallelism")
    assert (data["gpus"], data["missing"]) == ([0, 1], [])


def test_topology_says_which_gpu_is_missing(hosts, capsys):
    card = raw()["facts"]["gpus"]["value"][1]
    left = probed(
        gpus={"status": "ok", "value": [{**card, "index": 0}]},
        topology={"status": "ok", "value": {"links": [["X"]], "numa": [0], "cpus": ["0"]}},
        pci={"status": "ok", "value": []},
    )
    hosts(want=dataclasses.replace(WANT, baseline=record("a", seen())), a=[left])
    assert commands.topology(["a"], [], json=True) == 0
    data = json.loads(capsys.readouterr().out)["a"]
    assert data["gpus"] == [1]
    assert data["missing"] == ["GPU 0 is absent (slot 0000:06:00.0)"]
    hosts(a=[left])
    assert commands.topology(["a"], [], json=False) == 0
    out = capsys.readouterr().out
    assert "! 1 GPU is absent, and nobody knows which: those left are counted anew" in out
    assert "--record-baseline" in out


def test_a_topology_that_can_t_be_told_ends_1_and_says_why(hosts, capsys):
    hosts(a=[probed(topology={"status": "timeout", "reason": "no answer within 30 s"})])
    assert commands.topology(["a"], [], json=False) == 1
    assert "can't be told: no answer within 30 s" in capsys.readouterr().err


def test_a_host_is_recorded_and_then_held_to_that(hosts, capsys):
    hosts(a=[FINISHED])
    assert commands.verify(["a"], [], json=False, verbose=True, record_baseline=True) == 0
    out = capsys.readouterr().out
    assert "recorded as it is" in out
    assert "although" not in out
    assert "gpu.card  GPU 1: card GPU-" in out
    assert len(baseline.load("a").gpus) == 2


def test_what_is_recorded_below_a_profile_or_of_another_model_is_named(hosts, capsys):
    cards = raw()["facts"]["gpus"]["value"]
    cards[0] |= {"name": "NVIDIA RTX PRO 6000 Blackwell Workstation Edition"}
    cards[1] |= {"link_width": 8, "power_limit": 450.0}
    hosts(a=[probed(gpus={"status": "ok", "value": cards})])
    assert commands.verify(["a"], [], json=False, verbose=False, record_baseline=True) == 3
    out = capsys.readouterr().out
    warned = [line.partition("a fault: ")[2] for line in out.splitlines() if "although" in line]
    assert [one.partition(" instead")[0] for one in warned] == [
        "GPU 0: model NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
        "GPU 1: PCIe x8",
        "GPU 1: power limit 450 W",
    ]
    assert baseline.load("a").gpus[1].link_width == 8


def test_a_host_without_all_its_gpus_is_not_recorded(hosts, capsys):
    want = dataclasses.replace(WANT, gpus=WANT.gpus.model_copy(update={"count": 3}))
    hosts(want=want, a=[FINISHED])
    assert commands.verify(["a"], [], json=False, verbose=False, record_baseline=True) == 1
    assert "a: has 2 GPUs, and the inventory expects 3" in capsys.readouterr().err
    assert baseline.load("a") is None


# --- active ------------------------------------------------------------------------------------


def try_(python=""):
    return commands.verify(["a"], [], json=False, verbose=True, active=True, python=python)


def trials(**answers):
    """What a host's trials say, of which only some came to an end."""
    failed = {"status": "failed", "reason": "exits 1: no"}
    names = ("kernel", "bandwidth", "p2p", "allreduce", "allreduce_host", "flash_attn", "vllm")
    said = dict.fromkeys(names, failed) | answers
    return json.dumps({"trials": said, "after": raw()["facts"]["gpus"]})


def test_gpus_are_made_to_work_by_the_interpreter_that_is_named(hosts, capsys):
    kernels = [{"gpu": gpu, "exact": True, "error": 0.0} for gpu in (0, 1)]
    hosts(a=[FINISHED, trials(kernel={"status": "ok", "value": kernels})])
    assert try_("/usr/bin/python3") == 3
    out = capsys.readouterr().out
    assert "making its GPUs work" in out
    assert "active.kernel  GPU 1: it computes right" in out
    assert "active.bandwidth  host: bandwidth unknown instead of a result" in out


TRIED = json.loads(trials())


def test_by_an_environment_s_own_interpreter_where_it_has_torch(hosts, monkeypatch):
    with_torch = {"environments": {"main": {"distributions": {"torch": "2.9.1"}}}}
    asked = []
    monkeypatch.setattr(wire, "attempt", lambda _, python: asked.append(python) or TRIED)
    hosts(a=[probed(with_torch)])
    assert try_() == 3
    assert asked == ["/opt/firstlight/environments/main/current/bin/python"]


def test_without_torch_anywhere_an_interpreter_is_asked_for_beside_the_other_rows(hosts, capsys):
    hosts(a=[FINISHED])
    assert try_() == 3
    out = capsys.readouterr().out
    assert "gpu.link_width  GPU 1: PCIe x16" in out
    assert "active.trials  host: trials unknown instead of outcomes" in out
    assert "a: no environment there has torch; name an interpreter" in out
    assert "--python PATH" in out


@pytest.mark.parametrize("python", ["", "/usr/bin/python3"])
def test_gpus_that_do_not_answer_are_not_made_to_work(hosts, capsys, python):
    hosts(a=[probed(gpus=TIMEOUT)])
    assert try_(python) == 3
    out = capsys.readouterr().out
    assert "a: its GPUs can't be looked at: no answer within 30 s → inspect" in out
    assert "torch" not in out.partition("active.trials")[2]


def test_gpus_in_use_are_not_made_to_work(hosts, capsys):
    users = {"status": "ok", "value": [{"pid": 7, "name": "vllm", "unit": None}]}
    hosts(a=[probed(gpu_users=users)])
    assert try_("/usr/bin/python3") == 3
    out = capsys.readouterr().out
    assert "in use by vllm (7)" in out
    assert "gpu.link_width  GPU 1: PCIe x16" in out


def test_an_interpreter_that_is_none_is_wrong_input_told_once_beside_the_other_rows(hosts, capsys):
    absent = {"status": "absent", "reason": "/nope: No such file or directory"}
    names = json.loads(trials())["trials"]
    hosts(a=[FINISHED, trials(**dict.fromkeys(names, absent))])
    assert try_("/nope") == 2
    out = capsys.readouterr().out
    assert "gpu.link_width  GPU 1: PCIe x16" in out
    assert out.count("a: /nope: No such file or directory; name an interpreter") == 1
    assert "active.kernel" not in out


def test_an_interpreter_without_active_is_wrong_usage(capsys):
    code = commands.verify(["a"], [], json=False, verbose=False, python="/usr/bin/python3")
    assert code == 2
    assert "--python names the interpreter of --active" in capsys.readouterr().err


def test_what_gpus_did_is_recorded_and_kept_until_they_are_made_to_work_anew(hosts):
    bandwidth = [{"gpu": gpu, "to_gpu": 55.0 + gpu, "to_host": 54.0 + gpu} for gpu in (0, 1)]
    said = trials(bandwidth={"status": "ok", "value": bandwidth})
    options = {"json": False, "verbose": False, "record_baseline": True}
    hosts(a=[FINISHED, said])
    assert commands.verify(["a"], [], **options, active=True, python="/usr/bin/python3") == 3
    taken = baseline.load("a").figures
    assert taken.host_gb_s == {"0000:06:00.0": 54.0, "0000:07:00.0": 55.0}
    assert (taken.latency_us, taken.bus_gb_s) == (None, None)
    hosts(want=dataclasses.replace(WANT, baseline=baseline.load("a")), a=[FINISHED])
    assert commands.verify(["a"], [], **options) == 0
    assert baseline.load("a").figures == taken


def test_trials_of_another_shape_are_the_host_s_fault(hosts, capsys):
    hosts(a=[FINISHED, "{}"])
    assert try_("/usr/bin/python3") == 1
    assert "a: trials: expected a mapping" in capsys.readouterr().out
