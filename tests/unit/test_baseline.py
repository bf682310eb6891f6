"""What was recorded of a host: written, read, compared, and refused where it is none."""

import dataclasses
import json

import pytest
from samples import TIMEOUT, WANT, raw, seen

from provision import baseline, checks, facts, inventory, planner
from provision.checks import sku, xids
from provision.checks.recorded import record
from provision.checks.sku import FOLDER, of, skus
from provision.errors import ProvisionError, UsageError
from provision.target import target


@pytest.fixture(autouse=True)
def _beside(tmp_path, monkeypatch):
    monkeypatch.setenv(inventory.VARIABLE, str(tmp_path / "inventory.yaml"))


def wrong(taken, *edits):
    """Rows that are not right on a host whose GPUs differ from what was recorded."""
    found = raw()
    for index, fields in edits:
        found["facts"]["gpus"]["value"][index] |= fields
    want = dataclasses.replace(WANT, baseline=taken)
    rows = checks.check(want, facts.parse(found), planner.plan("h", want, found))
    return {(row.id, row.subject) for row in rows if not row.ok}


def test_what_is_recorded_is_read_back():
    taken = record("h", seen())
    path = baseline.save("h", taken)
    assert path.parent.name == "baselines"
    assert baseline.load("h") == taken
    assert [card.slot for card in taken.gpus] == ["0000:06:00.0", "0000:07:00.0"]
    assert taken.links == (("X", "PIX"), ("PIX", "X"))


def test_a_host_that_nobody_recorded_has_none():
    assert baseline.load("h") is None


def test_it_is_written_over(tmp_path):
    baseline.save("h", record("h", seen()))
    other = record("h", seen(topology=TIMEOUT))
    baseline.save("h", other)
    assert baseline.load("h") == other
    assert other.links is None


def test_gpus_that_can_t_be_told_are_not_recorded():
    with pytest.raises(ProvisionError, match=r"can't be recorded: no answer within 30 s"):
        record("h", seen(gpus=TIMEOUT))
    with pytest.raises(ProvisionError, match="there are none"):
        record("h", seen(gpus={"status": "ok", "value": []}))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "can't be read"),
        ("[1]", r"h\.json: expected a table, got \[1\]"),
        ('{"gpus": [], "links": null, "figures": null, "more": 1}', "more: "),
        ('{"gpus": [{"slot": "x"}], "links": null}', r"gpus\.0\.uuid"),
        ('{"gpus": [], "links": [["X"]], "figures": null}', "a row and a column per GPU"),
    ],
)
def test_a_file_that_is_no_baseline_is_refused_with_what_to_do(tmp_path, text, says):
    (tmp_path / "baselines").mkdir()
    (tmp_path / "baselines/h.json").write_text(text)
    with pytest.raises(UsageError, match=says) as caught:
        baseline.load("h")
    assert caught.value.what.startswith(f"{tmp_path / 'baselines/h.json'}: ")
    assert "--record-baseline" in caught.value.hint


def _folder(there):
    there.mkdir()


def _file_above(there):
    there.parent.rmdir()
    there.parent.write_text("a file")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (_folder, r"h\.json: can't be read: Is a directory"),
        (lambda there: there.symlink_to("gone"), r"h\.json: a link to gone, which is not there"),
        (lambda there: there.symlink_to(there), r"h\.json: can't be read: Too many"),
        (_file_above, r"h\.json: can't be read: Not a directory"),
    ],
)
def test_what_stands_in_a_baseline_s_place_is_not_taken_for_none(tmp_path, make, says):
    there = tmp_path / "baselines/h.json"
    there.parent.mkdir()
    make(there)
    with pytest.raises(UsageError, match=says) as caught:
        baseline.load("h")
    assert str(there) in caught.value.what
    assert caught.value.hint


def test_only_what_is_compared_with_a_baseline_needs_one_that_can_be_read(tmp_path):
    (tmp_path / "baselines").mkdir()
    (tmp_path / "baselines/h.json").write_text("{")
    text = "default: h\nhosts:\n  h: {connection: local, stack: lab}\n"
    (host,) = inventory.parse(text, "inventory.yaml").select()
    assert target(host, compared=False).want.baseline is None
    with pytest.raises(UsageError, match="can't be read"):
        target(host)


def _link_above(there):
    there.parent.rmdir()
    there.parent.symlink_to("gone")


@pytest.mark.parametrize(
    ("make", "says", "hint"),
    [
        (_folder, r"h\.json: can't be written: Is a directory", "remove what stands in the way"),
        (_file_above, r"h\.json: can't be written: Not a directory", "beside the inventory"),
        (
            lambda there: there.symlink_to("/nowhere/h"),
            r"h\.json: a link to /nowhere/h, which is not there",
            "mend the link",
        ),
        (_link_above, r"baselines: a link to gone, which is not there", "mend the link"),
        (
            lambda there: there.symlink_to("/dev/full"),
            r"h\.json: can't be written: No space left",
            "make that place writable",
        ),
    ],
)
def test_a_place_that_can_t_be_written_is_wrong_input_with_what_to_do(tmp_path, make, says, hint):
    there = tmp_path / "baselines/h.json"
    there.parent.mkdir()
    make(there)
    with pytest.raises(UsageError, match=says) as caught:
        baseline.save("h", record("h", seen()))
    assert hint in caught.value.hint


def test_a_link_that_leads_nowhere_yet_is_written_through(tmp_path):
    (tmp_path / "baselines").mkdir()
    (tmp_path / "baselines/h.json").symlink_to("../kept.json")
    baseline.save("h", record("h", seen()))
    assert (tmp_path / "kept.json").is_file()
    assert baseline.load("h")


def test_a_slot_that_is_narrow_by_its_making_is_right_once_it_was_recorded():
    narrow = (1, {"link_width": 8})
    assert wrong(None, narrow) == {("gpu.link_width", "GPU 1")}
    edited = raw()
    edited["facts"]["gpus"]["value"][1]["link_width"] = 8
    taken = record("h", facts.parse(edited))
    assert wrong(taken, narrow) == set()
    assert wrong(taken, (0, {"link_width": 8})) == {("gpu.link_width", "GPU 0")}


def test_a_model_without_a_profile_is_known_once_it_was_recorded():
    strange = [(index, {"name": "NVIDIA Unheard 1"}) for index in (0, 1)]
    edited = raw()
    for card in edited["facts"]["gpus"]["value"]:
        card["name"] = "NVIDIA Unheard 1"
    taken = record("h", facts.parse(edited))
    rows = wrong(taken, *strange)
    # The inventory names another model, and of this one nobody knows which kernels it takes.
    assert {name for name, _ in rows} == {"gpu.present", "environment.extensions"}


def test_every_profile_names_its_source_behind_every_figure():
    for path in FOLDER.glob("*.toml"):
        for line in path.read_text().splitlines()[1:]:
            if not line.startswith("link_width"):  # stands with the generation above it
                assert "  # " in line, f"{path.name}: {line}"


@pytest.mark.parametrize(
    ("model", "power", "generation"),
    [
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 600, 5),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", 300, 5),
        ("NVIDIA L40S", 350, 4),
    ],
)
def test_a_model_is_found_by_its_whole_name(model, power, generation):
    found = of(model)
    assert (found.power_w, found.link_gen) == (power, generation)


@pytest.fixture
def spoil(tmp_path, monkeypatch):
    """Exchanges a piece of a copied profile, or of the catalogue of Xids, and reads it anew."""

    def exchange(old, new):
        profile, reports = (FOLDER / "h200.toml").read_text(), xids.FILE.read_text()
        assert (profile + reports).count(old) >= 1
        (tmp_path / "h200.toml").write_text(profile.replace(old, new))
        (tmp_path / "x").mkdir()
        (tmp_path / "x/xids.toml").write_text(reports.replace(old, new, 1))
        monkeypatch.setattr(sku, "FOLDER", tmp_path)
        monkeypatch.setattr(xids, "FILE", tmp_path / "x/xids.toml")
        for kept in (skus, xids.catalogue):
            kept.cache_clear()

    yield exchange
    skus.cache_clear()
    xids.catalogue.cache_clear()


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("link_gen = 5", "link_gen =", r"^h200\.toml: .*line 5"),
        ("link_gen = 5", 'link_gen = "new"', r"^h200\.toml: link_gen: Input should be a valid int"),
        ("power_w", "power", r"^h200\.toml: power: unknown field; did you mean power_w\?"),
        ("[79]", "[79", r"^xids\.toml: .*line"),
        ("[79]", "[off]", r"^xids\.toml: off: Input should be a valid integer"),
        (
            'action = "reboot"',
            'act = "reboot"',
            r"^xids\.toml: 79\.act: unknown field; .* action\?",
        ),
        ('action = "reboot"', 'action = "x"', r"^xids\.toml: 79\.action: Input should be 'ignore'"),
    ],
)
def test_a_damaged_profile_or_catalogue_is_one_message_with_its_place(spoil, old, new, says):
    spoil(old, new)
    with pytest.raises(UsageError, match=says):
        skus() and xids.catalogue()


def test_no_two_profiles_claim_a_model():
    models = [model for sku in skus() for model in sku.models]
    assert len(models) == len(set(models)) >= 10
    assert of("NVIDIA L40") is None


def test_a_baseline_is_plain_json():
    taken = record("h", seen())
    data = json.loads(baseline.save("h", taken).read_text())
    assert data["gpus"][0]["link_width"] == 16
