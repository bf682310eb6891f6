"""picture(provenance) → HTML: one build on one page, which needs nothing but itself. Pure.

What colour says is said by shape and words, too: killed compilers are hatched and crossed, those
that failed are outlined, and what was predicted is a stroke across the bar of what was measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain, pairwise
from pathlib import Path

from wheels.provenance import Attempt, Provenance
from wheels.svg import path, rect, svg, text, written
from wheels.timeline import Timeline, timeline

GIB = 2**30
CSS = Path(__file__).with_suffix(".css")
WIDTH, LEFT, RIGHT = 1300.0, 300.0, 970.0
"""Pixels: of a drawing, and where its axis of time begins and ends."""
ROW, BAR = 16.0, 10.0
"""Pixels that a unit's row and the bar in it are high."""
PEAKS, HEAVIEST = 1000.0, 140.0
"""Where the column of peaks begins, and how long the longest of its bars is."""
TICKS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400)
"""Seconds between two marks on the axis: the first of which at most TICKS_AT_MOST fit."""
TICKS_AT_MOST = 12
HATCHED = """\
<defs><pattern id="hatched" width="5" height="5" patternUnits="userSpaceOnUse"
 patternTransform="rotate(45)"><path class="hatch" d="M0 0V5"/></pattern></defs>"""
NAME = 44
"""Characters of a unit's name for which there is room."""
OFF = 0.05
"""Share by which a peak may differ from what was predicted without a word."""


def picture(found: Provenance) -> str:
    """The page."""
    title = written(f"{found.recipe.wheel} {found.wheel.version}")
    parts = [f"<h1>{title}</h1>", _subtitle(found), _header(found)]
    if found.units or found.memory:
        axis = timeline(_spans(found))
        parts += [*_memory(found, axis), *_units(found, axis), _table(found)]
    else:
        parts.append("<h2>Nothing was measured</h2><p>The build went without the gate.</p>")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>\n{CSS.read_text(encoding='utf-8')}</style>\n</head>\n"
        "<body>\n" + "\n".join(parts) + "\n</body>\n</html>\n"
    )


def _spans(found: Provenance) -> Iterator[tuple[float, float]]:
    """When something went on, as far as it was recorded."""
    yield (found.start, found.start + found.seconds)
    yield from ((one.start, one.end) for one in found.units)
    yield from ((one.at, one.at) for one in found.memory)


def _subtitle(found: Provenance) -> str:
    built = datetime.fromtimestamp(found.start, UTC)
    return (
        f"<p><code>{written(found.wheel.file)}</code>, {found.wheel.size / 1e6:.1f} MB, "
        f"built on {built:%Y-%m-%d} with recipe {written(found.recipe.name)}<br>"
        f"<code>sha256 {written(found.wheel.sha256)}</code></p>"
    )


def _header(found: Provenance) -> str:
    wheel, host = found.wheel, found.host
    exact = [one for one in wheel.requires if "==" in one]
    axis = timeline(_spans(found))
    runs = len(axis.stretches)
    rows = [
        ("built against", ", ".join(exact) or "nothing", f"stack {found.recipe.stack}"),
        ("for GPUs of", ", ".join(wheel.archs), f"glibc {wheel.glibc or 'any'} or newer"),
        (
            "host",
            f"{host.processors} processors",
            f"{host.machine}, {host.glibc}, Linux {host.kernel}",
        ),
        ("compiler", f"nvcc {found.recipe.toolkit.release}", host.nvcc),
        ("time", clock(axis.busy), f"in {runs} runs" if runs > 1 else "in one run"),
        *_measured(found),
        ("proof", *_proof(found)),
    ]
    cells = (
        f"<div><dt>{written(name)}</dt><dd>{written(said)}<small>{written(more)}</small></dd></div>"
        for name, said, more in rows
    )
    return f"<dl>{''.join(cells)}</dl>"


def _measured(found: Provenance) -> Iterator[tuple[str, str, str]]:
    """What only a build with the gate knows of."""
    if not found.units:
        return
    made = len({one.unit for one in found.units if one.exit == 0})
    kills = sum(one.killed for one in found.units)
    peak = max((one.used for one in found.memory), default=0)
    cpu = sum(one.cpu for one in found.units)
    yield "units", str(made), f"{len(found.units)} compilers let in"
    yield (
        "processor time",
        clock(cpu),
        f"{cpu:.0f} CPU seconds; {_busy(found):.1f} of {found.cores} busy",
    )
    yield "memory at most", _gib(peak), f"budget {_gib(found.budget)}"
    yield "killed", str(kills), "compilers, which ran again" if kills else "no compiler"


def _busy(found: Provenance) -> float:
    """Processors that compilers kept busy on average, while any was running."""
    running = timeline((one.start, one.end) for one in found.units).busy
    return sum(one.cpu for one in found.units) / running if running else 0.0


def _proof(found: Provenance) -> tuple[str, str]:
    kernels = found.proof.kernels
    if "skipped" in kernels:
        return "metadata, files, imports", f"kernels not tried: {kernels['skipped']}"
    results = kernels.get("results")
    figures = results.items() if isinstance(results, dict) else ()
    said = ", ".join(
        f"{name} {value:.2g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in figures
    )
    return f"kernels computed on a GPU of {kernels.get('gpu', 'some kind')}", said


# --- memory ------------------------------------------------------------------------------------


def _memory(found: Provenance, axis: Timeline) -> Iterator[str]:
    top, bottom, below = 22.0, 232.0, 330.0
    peak = max(found.memory, key=lambda one: one.used, default=None)
    most = max(found.budget, peak.used if peak else 0) * 1.14
    crowd = max([found.cores, *(one.running for one in found.memory)])

    def y(used: float) -> float:
        return bottom - (bottom - top) * used / most

    def many(running: float) -> float:
        return below - (below - bottom - 28) * running / crowd

    drawn = [
        *_axis(axis, top, bottom),
        *_axis(axis, bottom + 28, below, labels=True),
        *_missing(axis, top - 8),
    ]
    for level in _levels(most / GIB):
        drawn.append(path([(LEFT, y(level * GIB)), (RIGHT, y(level * GIB))], "grid"))
        drawn.append(text(LEFT - 8, y(level * GIB) + 4, f"{level:g} GiB", "faint", "end"))
    for indices in axis.split([one.at for one in found.memory]):
        run = [found.memory[index] for index in indices]
        if not run:
            continue
        line = [(_x(axis, one.at), y(one.used)) for one in run]
        drawn.append(path([(line[0][0], bottom), *line, (line[-1][0], bottom)], "area"))
        drawn.append(path(line, "edge"))
        steps = _steps([(_x(axis, one.at), many(one.running)) for one in run])
        drawn.append(path([(steps[0][0], below), *steps, (steps[-1][0], below)], "area"))
        drawn.append(path(steps, "edge"))
    drawn.append(path([(LEFT, y(found.budget)), (RIGHT, y(found.budget))], "budget"))
    drawn.append(text(RIGHT + 8, y(found.budget) + 4, f"budget {_gib(found.budget)}"))
    if peak:
        x = _x(axis, peak.at)
        drawn.append(f'<circle class="peak" cx="{x:.1f}" cy="{y(peak.used):.1f}" r="4"/>')
        over = min(y(peak.used), y(found.budget)) - 9
        drawn.append(text(x, over, f"peak {_gib(peak.used)}", "over", "middle"))
    drawn.append(path([(LEFT, many(found.cores)), (RIGHT, many(found.cores))], "budget"))
    drawn.append(text(RIGHT + 8, many(found.cores) + 4, f"{found.cores} processors"))
    drawn += [text(LEFT - 8, many(n) + 4, str(n), "faint", "end") for n in (0, crowd)]
    drawn.append(text(LEFT - 8, (many(0) + many(crowd)) / 2 + 4, "compilers running", "", "end"))
    yield "<h2>Memory, and compilers running</h2>"
    yield "<p>What all compilers used together; the dashed lines are what there was for them.</p>"
    said = f"Memory over time, {_gib(peak.used if peak else 0)} at most"
    yield svg(WIDTH, below + 24, said, drawn)


def _steps(line: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """A number stays until the next one."""
    held = ([(after[0], before[1]), after] for before, after in pairwise(line))
    return [line[0], *chain.from_iterable(held)]


def _levels(most: float) -> list[float]:
    """Four to eight round marks up to `most`."""
    step = 2.0**-10
    while most / step > 8:
        step *= 2
    return [step * count for count in range(int(most / step) + 1)]


# --- units -------------------------------------------------------------------------------------


def _units(found: Provenance, axis: Timeline) -> Iterator[str]:
    units: dict[str, list[Attempt]] = {}
    for one in sorted(found.units, key=lambda one: one.start):
        units.setdefault(one.unit, []).append(one)
    if not units:
        return
    heaviest = max(max(one.peak, one.predicted) for one in found.units) or 1
    top = 24.0
    bottom = top + ROW * len(units)
    stripes = (
        rect(0, top + ROW * index, WIDTH, ROW, "stripe") for index in range(0, len(units), 2)
    )
    drawn = [
        HATCHED,
        *stripes,
        *_axis(axis, top, bottom, labels=True),
        *_missing(axis, top - 8),
        text(LEFT - 8, top - 8, "unit", "faint", "end"),
        text(PEAKS, top - 8, "memory at most", "faint"),
    ]
    for index, (name, attempts) in enumerate(units.items()):
        y = top + ROW * index
        drawn += _row(name, attempts, axis, y)
        drawn += _peaks(attempts[-1], heaviest, y)
    yield "<h2>Units</h2>"
    yield (
        "<p>When each unit's compiler ran, and for how long (minutes:seconds). "
        "Hatched with a cross: killed, and let in again. Outlined: failed. "
        "At the right what it used; the stroke is what was predicted.</p>"
    )
    yield svg(WIDTH, bottom + 24, f"When each of {len(units)} units was compiled", drawn)


def _row(name: str, attempts: Sequence[Attempt], axis: Timeline, y: float) -> Iterator[str]:
    middle, upper = y + ROW / 2, y + (ROW - BAR) / 2
    yield text(LEFT - 8, middle + 4, _short(name), "name", "end", title=name)
    for one in attempts:
        start, end = _x(axis, one.start), _x(axis, one.end)
        kind = "killed" if one.killed else "bar" if one.exit == 0 else "failed"
        yield rect(start, upper, max(end - start, 1.0), BAR, kind, title=_words(one))
        if one.killed:
            for rise in (4, -4):
                yield path([(end - 4, middle - rise), (end + 4, middle + rise)], "cross")
    last = attempts[-1]
    killed = sum(one.killed for one in attempts)
    note = clock(last.end - last.start)
    note += f", attempt {len(attempts)}" if len(attempts) > 1 else ""
    note += f" ({killed} killed)" if killed else ""
    note += f", exit {last.exit}" if last.exit and not last.killed else ""
    after = _x(axis, last.end) + 6 < RIGHT - 6.0 * len(note)
    x = _x(axis, last.end) + 6 if after else _x(axis, attempts[0].start) - 6
    yield text(x, middle + 4, note, "over faint", "start" if after else "end")


def _peaks(one: Attempt, heaviest: int, y: float) -> Iterator[str]:
    upper = y + (ROW - BAR) / 2
    predicted = PEAKS + HEAVIEST * one.predicted / heaviest
    yield rect(PEAKS, upper, HEAVIEST * one.peak / heaviest, BAR, "bar", title=_words(one))
    yield path([(predicted, upper - 2), (predicted, upper + BAR + 2)], "expected")
    yield text(PEAKS + HEAVIEST + 62, y + ROW / 2 + 4, _gib(one.peak), "", "end")
    off = one.peak / one.predicted - 1 if one.predicted else 0.0
    if abs(off) > OFF:
        said = f"▲ {off:.0%} over" if off > 0 else f"▽ {-off:.0%} under"
        kind = "warns" if off > 0 else "faint"
        yield text(PEAKS + HEAVIEST + 72, y + ROW / 2 + 4, said, kind)


def _words(one: Attempt) -> str:
    ended = "killed" if one.killed else "compiled" if one.exit == 0 else f"failed (exit {one.exit})"
    return (
        f"{one.unit}: {ended} after {clock(one.end - one.start)}, {one.cpu:.0f} CPU seconds, "
        f"{_gib(one.peak)} at most, {_gib(one.predicted)} predicted"
    )


def _table(found: Provenance) -> str:
    first = min(one.start for one in found.units) if found.units else 0.0
    heads = ("unit", "starts", "ends", "end", "CPU seconds", "peak GiB", "predicted GiB")
    rows = (
        (
            *(written(one.unit), clock(one.start - first), clock(one.end - first)),
            "killed" if one.killed else f"exit {one.exit}",
            *(f"{one.cpu:.1f}", f"{one.peak / GIB:.2f}", f"{one.predicted / GIB:.2f}"),
        )
        for one in sorted(found.units, key=lambda one: one.start)
    )
    return (
        "<details><summary>The same in figures</summary><table><thead>"
        f"{_cells('th', heads)}</thead><tbody>{''.join(_cells('td', row) for row in rows)}"
        "</tbody></table></details>"
    )


def _cells(kind: str, cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{kind}>{cell}</{kind}>' for cell in cells)}</tr>\n"


# --- both --------------------------------------------------------------------------------------


def _x(axis: Timeline, moment: float) -> float:
    return LEFT + (RIGHT - LEFT) * axis.at(moment) / (axis.length or 1.0)


def _axis(axis: Timeline, top: float, bottom: float, *, labels: bool = False) -> Iterator[str]:
    """Lines across at round times, and the cuts; times count what is shown."""
    step = next((one for one in TICKS if axis.busy / one <= TICKS_AT_MOST), axis.busy)
    gone = 0.0
    for start, end in axis.stretches:
        count = -(-gone // step)
        while count * step <= gone + end - start:
            x = _x(axis, start + count * step - gone)
            yield path([(x, top), (x, bottom)], "grid")
            if labels:
                yield text(x, bottom + 15, clock(count * step), "faint", "middle")
            count += 1
        gone += end - start
    for place, _ in axis.cuts:
        for beside in (-3, 3):
            x = _cut(axis, place) + beside
            yield path([(x, top), (x, bottom)], "cut")


def _missing(axis: Timeline, y: float) -> Iterator[str]:
    """How long was left out at each cut."""
    for place, missing in axis.cuts:
        yield text(_cut(axis, place), y, f"{clock(missing)} left out", "faint", "middle")


def _cut(axis: Timeline, place: float) -> float:
    return LEFT + (RIGHT - LEFT) * (place + axis.cut / 2) / axis.length


def _short(name: str) -> str:
    half = NAME // 2
    return name if len(name) <= NAME else f"{name[: half - 1]}…{name[-half:]}"


def _gib(size: float) -> str:
    return f"{size / GIB:.2f} GiB"


def clock(seconds: float) -> str:
    """Hours:minutes:seconds, without the hours where there are none."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
