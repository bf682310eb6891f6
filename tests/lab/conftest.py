"""What every lab test needs: a machine on which a lab host can stand."""

import pytest

from provision import lab


@pytest.fixture(scope="session", autouse=True)
def _a_lab_can_stand_here():
    if reason := lab.unavailable():
        pytest.skip(f"no lab host can stand here: {reason}")
