"""A plan as a file: written for its user alone, read as something that anybody may have changed."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from provision.errors import UsageError, shown
from provision.plan import SCHEMA, Plan, change_data


def save(file: Path, plans: Mapping[str, Any]) -> None:
    if len(plans) > 1:
        raise UsageError("--output takes the plan of one host", hint="name one --host")
    text = json.dumps(next(iter(plans.values())), indent=2, ensure_ascii=False)
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(handle, "w", encoding="utf-8") as out:  # noqa: PTH123 - a handle, for its mode
            out.write(text + "\n")
    except OSError as error:  # a full disk tells at the end
        raise UsageError(
            f"{file}: can't be written: {error.strerror}", hint="name another file with --output"
        ) from error


def read(file: Path) -> dict[str, Any]:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        if not _is_plan(data):
            raise ValueError("it holds no plan")
        if data["schema"] != SCHEMA:
            raise ValueError(f"it is a plan of schema {shown(data['schema'])}, expected {SCHEMA}")
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(
            f"{file}: can't be read as a plan: {error}",
            hint=f"make one: invoke plan --output {shlex.quote(str(file))}",
        ) from error
    plan: dict[str, Any] = data
    return plan


def differences(saved: Mapping[str, Any], fresh: Plan) -> dict[str, str]:
    """Change → how it differs between a saved plan's first round and a fresh one's."""
    before = {change["id"]: change["actions"] for change in next(iter(saved["rounds"]), [])}
    now = {change.id: change_data(change)["actions"] for change in fresh.now.changes}
    return {
        name: "in the saved plan alone"
        if name not in now
        else "in the fresh plan alone"
        if name not in before
        else "in both, with other actions"
        for name in sorted(before.keys() | now.keys())
        if before.get(name) != now.get(name)
    }


def _is_plan(data: object) -> bool:
    match data:
        case {"schema": int(), "host": str(), "fingerprint": str(), "rounds": [*rounds]}:
            return all(isinstance(one, list) and all(map(_is_change, one)) for one in rounds)
    return False


def _is_change(data: object) -> bool:
    match data:
        case {"id": str(), "actions": [*_]}:
            return True
    return False
