"""pyinfra's inventory: the hosts and variables of the file that BENCHMARK_HOSTS names."""

import json
import os
from pathlib import Path
from typing import Any


def _hosts() -> list[tuple[str, dict[str, Any]]]:
    described = json.loads(Path(os.environ["BENCHMARK_HOSTS"]).read_text(encoding="utf-8"))
    return list(described["all"]["hosts"].items())


hosts = _hosts()
