"""Property tests: the same examples on every machine, however slow it is."""

from hypothesis import HealthCheck, settings


def steady(examples: int) -> settings:
    """A test's settings. Derandomised examples come from the test itself: none are kept on disk."""
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
