"""What is known of a recipe's units: measured memory and time, and what follows for others.

A profile holds jobs of one arch. Those of several follow by a law that held for all that were
measured, one to four archs: `peak(job) = min(threads, archs) · peak(unit)`. nvcc runs the device
compilers of so many archs side by side, then the others', and what stands around them once.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any

from pydantic import Field, model_validator

from provision.errors import UsageError
from provision.stack import Table, validated
from wheels.remote.admission import Unit
from wheels.remote.curve import Curve, Point

FOLDER = Path(__file__).parent / "recipes" / "profiles"
MIB = 2**20
GUESS = Curve(((0.0, 1024 * MIB), (80.0, 7680 * MIB), (120.0, 7680 * MIB), (240.0, 2560 * MIB)))
"""A job of one arch that nobody measured: as heavy and as long as the worst that was.

That is flash-attn 2.8.3's flash_bwd_hdim256_bf16 under nvcc 12.4 and transparent huge pages, 7.5
GiB, and flash_bwd_hdim64_bf16, 240 CPU seconds; taken to fall later and less than any did.
"""
WORD = re.compile(r"([a-z]+)([0-9]{0,9})")
AS_KNOWN = 0.1
"""Share of a peak within which a unit is as it was known to be: there is nothing to learn."""
ENOUGH = 3
"""Samples of a unit's memory without which nothing is learned of it."""
TOLERANCE = 0.025
"""Share of the peak by which a kept curve may differ from the samples."""
ANEW = "mend it in wheels/recipes/profiles, or take it away: the next build measures anew"
FALL = 0.01
"""Seconds before the end of one arch's compilers that the next one's begin from."""

Seconds = Annotated[float, Field(ge=0, le=1e7, allow_inf_nan=False)]
Mebibytes = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
Pairs = Annotated[tuple[tuple[Seconds, Mebibytes], ...], Field(min_length=2)]


class Measured(Table):
    """One job that was measured: one unit, one compiler, one arch."""

    unit: str
    compiler: str
    """Such as 'nvcc 13.1'."""
    arch: Annotated[str, Field(pattern=r"^[0-9]{2,3}$")] | None
    """Such as '120'; None where nothing of it is compiled for GPUs."""
    cpu_seconds: Annotated[Seconds, Field(gt=0)]
    device_seconds: tuple[float, float] | None
    """From when to when the device compilers ran (cicc, ptxas), in the curve's seconds."""
    shape_of: str | None
    """The unit whose curve was taken, where of this one only peak and times were measured."""
    curve_mib: Pairs
    """Seconds, MiB."""

    @property
    def curve(self) -> Curve:
        """In bytes."""
        return Curve(tuple((time, round(size * MIB)) for time, size in self.curve_mib))

    @model_validator(mode="after")
    def _holds_together(self) -> Measured:
        curve = self.curve  # raises where its points are no curve
        if self.device_seconds:
            start, end = self.device_seconds
            if not 0 <= start < end <= curve.duration:
                raise ValueError("device_seconds lies outside the curve")
            try:
                _job(curve, self.device_seconds, archs=2, threads=1)
            except ValueError as error:
                raise ValueError("device_seconds ends too near another point") from error
        return self


class Profile(Table):
    """What was measured of a recipe's units."""

    source: str
    machine: str
    measured: tuple[Measured, ...]


@dataclass(frozen=True)
class Prediction:
    """A unit's job as it is expected, and why."""

    unit: Unit
    measured: str = ""
    """With which compiler, and for which GPUs: 'nvcc 13.1 for 12.0'; '' for a guess."""
    like: str = ""
    """The unit that was measured, where it was not this one."""

    @property
    def basis(self) -> str:
        """Why, in a clause."""
        if not self.measured:
            return "a guess: nothing like it was measured"
        return f"as {self.like}, measured with {self.measured}" if self.like else self.kind

    @property
    def kind(self) -> str:
        """The same of all such units together."""
        if not self.measured:
            return "guessed"
        return f"{'like one that was ' if self.like else ''}measured with {self.measured}"


def names() -> list[str]:
    """The profiles there are."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def load(recipe: str) -> Profile | None:
    """Read `recipes/profiles/RECIPE.json`; None where there is none, UsageError where it is bad."""
    path = FOLDER / f"{recipe}.json"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path.name}: not a profile: {error}", hint=ANEW) from error
    if not isinstance(data, dict):
        raise UsageError(f"{path.name}: expected an object with the measured units", hint=ANEW)
    return validated(Profile, data, path.name)


def predict(
    profile: Profile | None, names: Iterable[str], *, archs: int, threads: int, compiler: str
) -> tuple[Prediction, ...]:
    """What to expect of units (their source files' names), on the profile's machine.

    Of a unit that was measured with other compilers only, the heaviest of these counts.
    """
    rows = profile.measured if profile else ()
    return tuple(_predicted(name, rows, archs, threads, compiler) for name in names)


def job(row: Measured, *, archs: int, threads: int) -> tuple[Curve, float]:
    """A measured unit's curve for several archs, and the processors it keeps busy on average."""
    if row.device_seconds is None:
        return row.curve, 1.0
    return _job(row.curve, row.device_seconds, archs, threads)


def pace(rows: Iterable[Measured], one: str, other: str) -> float:
    """How much longer a compiler takes than another: over all units that both were measured with.

    Each on its own machine: it tells of these, too. 1 where there are none.
    """
    if one == other:
        return 1.0
    times: dict[str, dict[str, float]] = {}
    for row in rows:
        times.setdefault(row.unit, {})[row.compiler] = row.cpu_seconds
    ratios = [both[other] / both[one] for both in times.values() if one in both and other in both]
    return median(ratios) if ratios else 1.0


def distance(one: str, other: str) -> float:
    """How unlike two files' names are; 0 for the same.

    Names go from the general to the particular, the suffix before all: what differs counts half as
    much as what differs one word before it. A word that only one has counts 1, the numbers after a
    word that both have by their ratio, at most as much.
    """
    mine, theirs = _words(one), _words(other)
    only = [_weights(mine, theirs.keys()), _weights(theirs, mine.keys())]
    shared = ((mine[word], theirs[word]) for word in mine.keys() & theirs.keys())
    numbers = (
        0.5 ** min(a[0], b[0]) * min(abs(math.log2((a[1] + 1) / (b[1] + 1))), 1.0)
        for a, b in shared
    )
    return max(only) + sum(numbers)


def _words(name: str) -> dict[str, tuple[int, int]]:
    """Word → its place and the number after it."""
    stem, _, suffix = name.rpartition(".")
    found = WORD.findall(f"{suffix}.{stem}".lower())
    return {word: (place, int(number or 0)) for place, (word, number) in enumerate(found)}


def _weights(words: dict[str, tuple[int, int]], known: Collection[str]) -> float:
    return sum(0.5**place for word, (place, _) in words.items() if word not in known)


def _predicted(
    name: str, rows: Sequence[Measured], archs: int, threads: int, compiler: str
) -> Prediction:
    if not rows:
        curve, cores = _job(GUESS, (0.0, GUESS.duration), archs, threads)
        return Prediction(Unit(name, curve, cores))
    # Itself before all: names whose numbers stand alone have no distance.
    nearest = min(rows, key=lambda row: (row.unit != name, distance(name, row.unit), row.unit)).unit
    of_it = [row for row in rows if row.unit == nearest]
    best = [row for row in of_it if row.compiler == compiler] or of_it
    row = max(best, key=lambda row: row.curve.peak)
    curve, cores = job(row, archs=archs, threads=threads)
    curve = curve.scaled(time=pace(rows, row.compiler, compiler))
    where = f" for {row.arch[:-1]}.{row.arch[-1]}" if row.arch else ""
    return Prediction(
        Unit(name, curve, cores),
        measured=f"{row.compiler}{where}",
        like="" if nearest == name else nearest,
    )


def _job(
    curve: Curve, device: tuple[float, float], archs: int, threads: int
) -> tuple[Curve, float]:
    """The device part over again until every arch had its turn, so many side by side as may be."""
    start, end = device
    beside = min(threads, archs)
    points: list[Point] = [(time, size) for time, size in curve.points if time < start]
    turns = [min(beside, archs - done) for done in range(0, archs, beside)]
    for turn, many in enumerate(turns):
        later = turn * (end - start)
        points.append((start + later, many * curve.at(start)))
        points += [(time + later, many * size) for time, size in curve.points if start < time < end]
        points.append((end + later - FALL, many * curve.at(end)))
    later = (len(turns) - 1) * (end - start)
    points += [(time + later, size) for time, size in curve.points if time >= end]
    busy = curve.duration - (end - start) + archs * (end - start)
    return Curve(tuple(points)), busy / points[-1][0]


def learned(
    profile: Profile | None, rows: Iterable[Mapping[str, Any]], *, compiler: str, arch: str
) -> Profile:
    """The profile with what a build of one arch has measured, in place of what was known of that.

    `rows` are the builder's records of units (see remote/server.py), `arch` is such as '90'.
    """
    peaks = {
        row.unit: row.curve.peak
        for row in (profile.measured if profile else ())
        if (row.compiler, row.arch) == (compiler, arch)
    }
    new = {
        row["unit"]: _measured(row, compiler, arch)
        for row in rows
        if row["exit"] == 0 and len(row["curve"]) >= ENOUGH
        if abs(row["peak"] / peaks.get(row["unit"], 1) - 1) > AS_KNOWN
    }
    known = profile or Profile(source="builds of this recipe", machine="build hosts", measured=())
    kept = [
        row
        for row in known.measured
        if (row.compiler, row.arch) != (compiler, arch) or row.unit not in new
    ]
    every = sorted([*kept, *new.values()], key=lambda row: (row.unit, row.compiler))
    return known.model_copy(update={"measured": tuple(every)})


def save(recipe: str, profile: Profile) -> None:
    """Write it beside the recipe, a unit a line."""
    head = profile.model_dump(mode="json", exclude={"measured"})
    lines = ",\n".join(f"    {row.model_dump_json()}" for row in profile.measured)
    text = json.dumps(head, indent=2)[:-2] + f',\n  "measured": [\n{lines}\n  ]\n}}\n'
    path = FOLDER / f"{recipe}.json"
    fresh = path.with_suffix(f".{os.getpid()}")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)


def _measured(row: Mapping[str, Any], compiler: str, arch: str) -> Measured:
    """One unit's record. Its highest sample is given the peak, which is looked for more often."""
    seconds = round(float(row["cpu"]), 1)
    samples: dict[float, float] = {}
    for time, size in row["curve"]:
        if 0 < (at := round(float(time), 1)) < seconds:
            samples[at] = max(size / MIB, samples.get(at, 0.0))
    first, last = row["curve"][0][1] / MIB, row["curve"][-1][1] / MIB
    points = [(0.0, first), *samples.items()]
    top = max(range(len(points)), key=lambda at: points[at][1])
    points[top] = (points[top][0], row["peak"] / MIB)
    points.append((seconds, last))
    device = (_host_part(points), round(0.97 * seconds, 1))
    peak = row["peak"] / MIB
    kept = (*_thinned(points[: top + 1], peak)[:-1], *_thinned(points[top:], peak))
    return Measured(
        unit=row["unit"],
        compiler=compiler,
        arch=arch,
        cpu_seconds=seconds,
        device_seconds=device if device[0] < device[1] else None,
        shape_of=None,
        curve_mib=tuple((time, round(size)) for time, size in kept),
    )


def _host_part(points: Sequence[tuple[float, float]]) -> float:
    """When the first program that was not for the GPU has ended: its memory is gone."""
    highest = 0.0
    for time, size in points:
        if size < 0.3 * highest:
            return time
        highest = max(highest, size)
    return 0.0


def _thinned(points: Sequence[tuple[float, float]], peak: float) -> list[tuple[float, float]]:
    """Without the points that lie on the line of their neighbours, to TOLERANCE of the peak."""
    if len(points) < 3:
        return list(points)
    (start, low), (end, high) = points[0], points[-1]
    off = [
        abs(size - (low + (high - low) * (time - start) / (end - start))) for time, size in points
    ]
    worst = max(range(len(points)), key=lambda at: off[at])
    if off[worst] <= TOLERANCE * peak:
        return [points[0], points[-1]]
    return [*_thinned(points[: worst + 1], peak)[:-1], *_thinned(points[worst:], peak)]
