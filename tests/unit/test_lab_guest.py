"""The simulated tools of a lab host, on descriptions of its hardware."""

import json

import pytest

from provision.lab import hardware
from provision.lab.guest import description, smi, state

MODELS = {
    "machine": hardware.Hardware,
    "kernels": hardware.Kernels,
    "model": hardware.GpuModel,
    "gpus": hardware.Gpu,
    "faults": hardware.Faults,
    "bridges": hardware.Bridge,
}


@pytest.fixture
def described(tmp_path, monkeypatch):
    """Has the tools read a right description with an edit made to it."""
    monkeypatch.setattr(state, "HARDWARE", tmp_path / "hardware.json")

    def describe(edit):
        machine = hardware.load("rtxpro6000-8x").model_dump(mode="json")
        edit(machine)
        state.HARDWARE.write_text(json.dumps(machine))

    return describe


@pytest.mark.parametrize("kind", MODELS)
def test_a_guest_knows_the_fields_that_its_description_is_held_to(kind):
    assert description.KNOWN.keys() == MODELS.keys()
    assert description.KNOWN[kind] == set(MODELS[kind].model_fields)


@pytest.mark.parametrize("name", hardware.names())
def test_no_description_has_an_unknown_field(name):
    assert list(description.unknown(hardware.load(name).model_dump(mode="json"))) == []


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (
            lambda machine: machine["gpus"][3]["faults"].update(link_widht=8),
            "hardware.json: gpus[3].faults.link_widht: unknown field\n",
        ),
        (
            lambda machine: machine["bridges"][0].update(acs=True),
            "hardware.json: bridges[0].acs: unknown field\n",
        ),
        (
            lambda machine: machine.update(smi_hang=True),
            "hardware.json: smi_hang: unknown field\n",
        ),
    ],
    ids=["fault", "bridge", "machine"],
)
def test_nvidia_smi_names_a_misspelt_field_and_says_nothing_else(described, capsys, edit, says):
    described(edit)
    assert smi.main(["nvidia-smi", "-q", "-x"]) == smi.WRONG
    assert capsys.readouterr() == ("", says)
