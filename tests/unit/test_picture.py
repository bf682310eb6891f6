"""A build's picture: what its page holds, on a real build and on what can happen to others."""

import json
import os
import re
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest
from harmless import refused
from hypothesis import given
from samples import capture
from spoilt import spoilt

from provision import wheelhouse
from provision.errors import UsageError
from tests.steady import steady
from wheels import commands, picture, provenance
from wheels.timeline import LONGEST, timeline

CAPTURE = "flash-attn.whl.provenance"
"""Of flash-attn 2.8.3, 72 units on 32 processors and within 64 GiB; the units' curves left out."""
HOUR = 3600.0
SVG = "<svg.*?</svg>"


def recorded():
    return json.loads(capture(CAPTURE))


def drawn(data):
    """The page, and its drawings as XML."""
    page = picture.picture(provenance.parse(json.dumps(data), "x"))
    return page, [ET.fromstring(one) for one in re.findall(SVG, page, re.S)]  # noqa: S314 - our own


def shapes(drawing, kind):
    return [one for one in drawing.iter() if kind in one.get("class", "").split()]


def words(drawing):
    return [one.text or "".join(one.itertext()) for one in drawing.iter("text")]


def killed_once(data, unit=3):
    """The unit's compiler was killed after half of its time, and ran again for as long."""
    row = data["units"][unit]
    middle = (row["start"] + row["end"]) / 2
    data["units"].append({**row, "end": middle, "killed": True, "exit": 137})
    row["start"] = middle
    return row["unit"]


def interrupted(data, away=HOUR):
    """Before the last run the build was away for so long."""
    for row in data["memory"]:
        row["at"] += away * (row["at"] >= data["start"])
    data["start"] += away


class Page(HTMLParser):
    """What a page asks for beyond itself, and whether its elements are closed in order."""

    VOID = ("meta", "br")

    def __init__(self):
        super().__init__()
        self.open, self.asked, self.found = [], [], []

    def handle_starttag(self, tag, attrs):
        self.found.append(tag)
        self.asked += [value for name, value in attrs if name in ("src", "href", "srcset", "style")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_whole_and_needs_nothing_but_itself():
    page, _ = drawn(recorded())
    parser = Page()
    parser.feed(page)
    assert (parser.open, parser.asked) == ([], [])
    assert not {"script", "link", "img", "iframe"} & set(parser.found)
    assert not re.search(r"url\((?!#)|@import|https?:", page)


def test_the_header_says_what_was_built_and_what_it_took():
    data = recorded()
    page, _ = drawn(data)
    said = re.sub(r"<[^>]+>", " ", page)
    cpu = sum(row["cpu"] for row in data["units"])
    peak = max(row["used"] for row in data["memory"]) / 2**30
    for part in ("torch==2.11.0", "nvcc 13.0", "32 processors", f"{cpu:.0f} CPU seconds"):
        assert part in said
    assert f"{peak:.2f} GiB" in said
    assert "budget 64.00 GiB" in said
    assert "cases 24" in said


def test_a_row_for_each_unit_whose_bar_is_as_long_as_it_ran():
    data = recorded()
    _, (_, gantt) = drawn(data)
    names = {one.find("title").text for one in shapes(gantt, "name")}
    assert names == {row["unit"] for row in data["units"]}
    rects = [one for one in shapes(gantt, "bar") if float(one.get("x")) < picture.RIGHT]
    widths = {one.find("title").text.partition(":")[0]: float(one.get("width")) for one in rects}
    seconds = {row["unit"]: row["end"] - row["start"] for row in data["units"]}
    longest, shortest = max(seconds, key=seconds.get), min(seconds, key=seconds.get)
    ratio = widths[longest] / widths[shortest]
    assert ratio == pytest.approx(seconds[longest] / seconds[shortest], rel=0.01)
    starts = [float(one.get("x")) for one in rects]
    assert starts == sorted(starts)
    assert starts[0] >= picture.LEFT


def test_the_peak_lies_below_the_budget_s_line():
    data = recorded()
    _, (memory, _) = drawn(data)
    (peak,) = shapes(memory, "peak")
    line = shapes(memory, "budget")[0].get("d")
    budget = float(line.split()[-1])
    assert float(peak.get("cy")) > budget
    data["budget"] = max(row["used"] for row in data["memory"]) // 2
    _, (memory, _) = drawn(data)
    above = float(shapes(memory, "budget")[0].get("d").split()[-1])
    assert float(shapes(memory, "peak")[0].get("cy")) < above


def test_a_killed_compiler_is_told_by_more_than_its_colour():
    data = recorded()
    unit = killed_once(data)
    page, (_, gantt) = drawn(data)
    (bar,) = shapes(gantt, "killed")
    assert bar.find("title").text.startswith(f"{unit}: killed after")
    assert len(shapes(gantt, "cross")) == 2
    assert [one for one in words(gantt) if one.endswith("attempt 2 (1 killed)")]
    assert len(shapes(gantt, "name")) == 72
    assert "73 compilers let in" in page


def test_a_compiler_that_failed_is_outlined():
    data = recorded()
    row = data["units"][0]
    data["units"].append({**row, "start": row["start"] - 9, "end": row["start"] - 8, "exit": 2})
    _, (_, gantt) = drawn(data)
    (bar,) = shapes(gantt, "failed")
    assert "failed (exit 2)" in bar.find("title").text


def test_the_time_between_two_runs_is_left_out_and_marked():
    data = recorded()
    _, before = drawn(data)
    interrupted(data)
    page, after = drawn(data)
    gap = data["start"] - max(m["at"] for m in data["memory"] if m["at"] < data["start"])
    said = f"{picture.clock(gap)} left out"
    assert all(said in words(one) for one in after)
    assert "in 2 runs" in page
    ends = [max(float(one.get("x")) for one in shapes(d[1], "bar")) for d in (before, after)]
    assert ends[1] == pytest.approx(ends[0], abs=1.0)


def test_only_peaks_that_differ_from_what_was_predicted_get_a_word():
    data = recorded()
    for row in data["units"]:
        row["predicted"] = row["peak"]
    data["units"][0]["predicted"] //= 2
    data["units"][1]["predicted"] *= 2
    _, (_, gantt) = drawn(data)
    said = [one for one in words(gantt) if "over" in one or "under" in one]
    assert sorted(said) == ["▲ 100% over", "▽ 50% under"]


def test_names_are_text_whatever_stands_in_them():
    data = recorded()
    data["units"][0]["unit"] = '<script>alert("1")</script>&.cu'
    data["proof"]["kernels"] = {"skipped": "<b>no GPU</b>"}
    data["units"][1]["unit"] = "bell\x07\u202e.cu"
    page, (_, gantt) = drawn(data)
    assert "bell␇\N{REPLACEMENT CHARACTER}.cu" in page
    assert "<script>" not in page
    assert "<b>" not in page
    assert data["units"][0]["unit"] in [one.find("title").text for one in shapes(gantt, "name")]


def test_a_long_name_is_cut_in_its_middle_and_whole_for_who_points_at_it():
    data = recorded()
    long = data["units"][0]["unit"] = "a" * 50 + "_the_end.cu"
    _, (_, gantt) = drawn(data)
    (name,) = (one for one in shapes(gantt, "name") if one.find("title").text == long)
    shown = name.find("title").tail
    assert len(shown) == picture.NAME
    assert shown.endswith("_the_end.cu")


def test_without_the_gate_nothing_was_measured_and_none_is_claimed():
    data = recorded() | {"units": [], "memory": []}
    page, drawings = drawn(data)
    assert drawings == []
    assert "without the gate" in page
    assert "GiB" not in page


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("budget",), None, "budget"),
        (("cores",), 0, "cores"),
        (("budget",), 0, "budget"),
        (("units", 5, "end"), 0.0, "units.5: .*ends before it starts"),
        (("units", 5, "peak"), -1, "units.5.peak"),
        (("units", 5, "start"), float("nan"), "units.5.start"),
        (("memory", 9, "used"), "much", "memory.9.used"),
        (("wheel", "file"), "no wheel", "wheel: .*no wheel"),
        (("proof",), [], "proof"),
    ],
    ids=lambda one: ".".join(map(str, one)) if isinstance(one, tuple) else "",
)
def test_a_damaged_provenance_is_one_message_with_file_and_field(path, value, says):
    data = recorded()
    place = data
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    with pytest.raises(UsageError, match=rf"^x\.whl: {says}"):
        provenance.parse(json.dumps(data), "x.whl")


# --- the axis ----------------------------------------------------------------------------------


def test_what_nearly_meets_is_one_stretch():
    axis = timeline([(10.0, 20.0), (20.0 + LONGEST, 50.0), (12.0, 13.0)])
    assert (axis.stretches, axis.cuts) == (((10.0, 50.0),), [])
    assert axis.at(30.0) == 20.0


def test_a_cut_keeps_both_sides_apart_and_in_proportion():
    axis = timeline([(0.0, 100.0), (HOUR, HOUR + 300.0)])
    assert axis.cuts == [(100.0, HOUR - 100.0)]
    assert axis.at(HOUR) - axis.at(100.0) == axis.cut > 0
    assert axis.at(HOUR + 300.0) - axis.at(HOUR) == pytest.approx(300.0)
    assert axis.at(HOUR / 2) == axis.at(HOUR)
    assert axis.length == axis.at(HOUR + 300.0)
    assert axis.split([0.0, 50.0, HOUR]) == [[0, 1], [2]]


# --- the task ----------------------------------------------------------------------------------


@pytest.fixture
def dist(tmp_path, monkeypatch):
    """A wheelhouse with what stands beside two wheels."""
    text = capture(CAPTURE)
    for age, name in enumerate(["old-1-py3-none-any.whl", recorded()["wheel"]["file"]]):
        path = tmp_path / f"{name}.provenance"
        path.write_text(text.replace(recorded()["wheel"]["file"], name))
        os.utime(path, (1e9 + age, 1e9 + age))
    monkeypatch.setattr(wheelhouse, "FOLDER", tmp_path)
    return tmp_path


def test_without_a_name_the_newest_wheel_is_drawn_beside_it(dist, capsys):
    assert commands.draw("", None) == 0
    file = recorded()["wheel"]["file"]
    assert "2.8.3+cu130torch2.11.0</h1>" in (dist / f"{file}.html").read_text()
    assert f"{file}  how it was built: {dist / file}.html" in capsys.readouterr().out


def test_one_that_is_named_goes_where_it_is_said(dist):
    assert commands.draw("old-1-py3-none-any.whl", dist / "page.html") == 0
    assert "flash-attn 1</h1>" in (dist / "page.html").read_text()


def test_what_no_text_can_hold_is_no_traceback(dist):
    (path,) = dist.glob("old*")
    data = json.loads(path.read_text())
    data["proof"]["kernels"] = {"skipped": "\ud800"}
    path.write_text(json.dumps(data))
    assert commands.draw("old-1-py3-none-any.whl", dist / "page.html") == 0
    assert "kernels not tried: \N{REPLACEMENT CHARACTER}<" in (dist / "page.html").read_text()


@pytest.mark.parametrize(
    ("wheel", "output", "says"),
    [
        ("none.whl", "", "/none.whl.provenance: there is no provenance of this wheel"),
        ("cut-1-py3-none-any.whl", "", "/cut-1-py3-none-any.whl.provenance: not a wheel's"),
        ("list-1-py3-none-any.whl", "", "/list-1-py3-none-any.whl.provenance: expected an object"),
        ("byte-1-py3-none-any.whl", "", "/byte-1-py3-none-any.whl.provenance: not a wheel's"),
        ("folder.whl", "", "/folder.whl.provenance: can't be read: Is a directory\n"),
        ("", "none/page.html", "none/page.html: can't be written"),
    ],
)
def test_what_can_t_be_drawn_ends_2_with_one_message(dist, capsys, wheel, output, says):
    (dist / "cut-1-py3-none-any.whl.provenance").write_text(capture(CAPTURE)[:999])
    (dist / "list-1-py3-none-any.whl.provenance").write_text("[]")
    (dist / "byte-1-py3-none-any.whl.provenance").write_bytes(b"\xff")
    (dist / "folder.whl.provenance").mkdir()
    for path in dist.glob("[bcfl]*"):
        os.utime(path, (1e8, 1e8))
    assert commands.draw(wheel, dist / output if output else None) == 2
    assert says in capsys.readouterr().err


def test_a_provenance_may_be_named_itself(dist):
    (path,) = dist.glob("old*")
    for name in (path.name, str(path)):
        assert provenance.load(provenance.place(name, dist)).wheel.version == "1"


def test_wheels_without_a_provenance_are_told_from_none(dist, capsys):
    for path in dist.iterdir():
        path.rename(path.with_suffix(""))
    assert commands.draw("", None) == 2
    err = capsys.readouterr().err
    assert f"none of the wheels in {dist} has a provenance" in err
    assert "invoke build --force --recipe NAME" in err


def test_an_empty_wheelhouse_says_how_to_fill_it(dist, capsys):
    for path in dist.iterdir():
        path.unlink()
    assert commands.draw("", None) == 2
    err = capsys.readouterr().err
    assert "holds no wheel yet" in err
    assert "invoke build --recipe NAME" in err


# --- whatever stands in the file ---------------------------------------------------------------


def small():
    """A provenance with two units and three samples."""
    data = recorded()
    return data | {"units": data["units"][:2], "memory": data["memory"][:3]}


@steady(200)
@given(spoilt(small()))
def test_any_tree_is_drawn_or_refused_in_one_message(tree):
    try:
        found = provenance.parse(json.dumps(tree), "x.whl")
    except UsageError as error:
        refused(error, ("x.whl: ",))
        return
    page = picture.picture(found)
    for one in re.findall(SVG, page, re.S):
        ET.fromstring(one)  # noqa: S314 - our own
