"""Curves, units and rooms as strategies: small ones, so that hypothesis finds the awkward."""

from hypothesis import strategies as st

from wheels.remote.admission import Room, Unit
from wheels.remote.curve import Curve

MIB = 2**20
GIB = 2**30

sizes = st.integers(0, 8 * 1024).map(lambda mib: mib * MIB)
gaps = st.floats(5.0, 60.0).map(lambda seconds: round(seconds, 1))


@st.composite
def curves(draw):
    """Two to six points, 5 to 300 seconds, up to 8 GiB."""
    points = [(0.0, draw(sizes))]
    for gap in draw(st.lists(gaps, min_size=1, max_size=5)):
        points.append((points[-1][0] + gap, draw(sizes)))
    return Curve(tuple(points))


@st.composite
def units(draw, *, most=8):
    """One to `most` units with names of their own."""
    found = draw(
        st.lists(st.tuples(curves(), st.sampled_from((1.0, 2.5))), min_size=1, max_size=most)
    )
    return [Unit(f"u{index}", curve, cores) for index, (curve, cores) in enumerate(found)]


rooms = st.builds(Room, st.integers(2, 24).map(lambda gib: gib * GIB), st.integers(1, 8))

HUMP = Curve(((0.0, 0), (10.0, GIB), (60.0, 6 * GIB), (64.0, 1 * GIB), (130.0, 1 * GIB)))
"""As a device compiler's: a steady rise, a fall, a level rest."""
