"""What hypothesis makes of good data: trees and texts with something wrong in them."""

import copy
import re

from hypothesis import strategies as st

NASTY = (
    *("", "-", "-oProxyCommand=touch /tmp/x", "--force", "$(touch /tmp/x)", "`reboot`", "; reboot"),
    *(
        "'",
        '"',
        "\\",
        "a b",
        "a\nb",
        "a\r\nb",
        "\0",
        "\x1b[2J",
        "\x9b31m",
        "\x7f",
        "\u202e",
        "\u2028",
    ),
    *("é", "\ud800", "..", "../../etc/passwd", "/", "~nobody/x", "%h", "*", "?", "x" * 300),
    *(
        "none",
        "installed",
        "half-configured",
        "1.2",
        "1.2-3",
        "nvidia-x",
        "https://u:p@h/",
        "[bold]",
    ),
)
"""What shells, terminals, paths, options, patterns and parsers take for something of theirs."""

ENDLESS = (10**400, -(10**400), 2**63, -(2**63) - 1, 2**31, -1, 0, 1e308, -1e308, 5e-324)

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(ENDLESS),
    st.sampled_from(NASTY),
    st.text(max_size=5),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(NASTY) | st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
"""JSON of any kind."""

VALUE = re.compile(r"[:=] *([^\n,}#]+)")
"""What stands behind `key:` or `key =`."""


@st.composite
def spoilt(draw, tree):
    """A tree of which some parts are gone, renamed, doubled, or something else."""
    tree = copy.deepcopy(tree)
    for _ in range(draw(st.integers(1, 3))):
        _spoil(draw, tree)
    return tree


def _spoil(draw, tree):
    node = tree
    while True:
        keys = list(node) if isinstance(node, dict) else range(len(node))
        if not keys:
            return
        key = draw(st.sampled_from(keys))
        inner = node[key]
        if not isinstance(inner, dict | list) or not inner or draw(st.integers(0, 3)) == 0:
            break
        node = inner
    match draw(st.sampled_from(("replace", "replace", "drop", "rename", "double"))):
        case "replace":
            node[key] = draw(values)
        case "drop":
            del node[key]
        case "rename" if isinstance(node, dict):
            node[draw(st.sampled_from(NASTY))] = node.pop(key)
        case "double" if isinstance(node, list):
            node.append(inner)


@st.composite
def spoilt_text(draw, text, pieces=NASTY):
    """A text that is cut, or has pieces in it that do not belong there."""
    for _ in range(draw(st.sampled_from((1, 1, 1, 2, 3)))):
        at = draw(st.integers(0, len(text)))
        match draw(st.sampled_from(("value", "value", "value", "insert", "remove", "cut", "line"))):
            case "value" if found := [m.span(1) for m in VALUE.finditer(text)]:
                start, end = draw(st.sampled_from(found))
                text = text[:start] + draw(st.sampled_from(pieces)) + text[end:]
            case "insert":
                text = text[:at] + draw(st.sampled_from(pieces)) + text[at:]
            case "remove":
                text = text[:at] + text[at + draw(st.integers(1, 20)) :]
            case "cut":
                text = text[:at]
            case "line":
                start = text.rfind("\n", 0, at) + 1
                text = text[:at] + text[start:at] + text[at:]
    return text
