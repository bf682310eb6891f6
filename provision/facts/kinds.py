"""Numbers and names as a host may tell them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

Int = Annotated[int, Field(ge=-(2**63), lt=2**63)]
"""What fits into 64 bits, as every size and count of a kernel does; Python's own never end."""
Float = Annotated[float, Field(allow_inf_nan=False)]
Moment = Annotated[float, Field(ge=0, lt=2**40)]
"""Seconds since the epoch; later than this no calendar goes."""
PackageName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9+._-]*(:[a-z0-9-]+)?$")]
"""As dpkg itself holds names to (pkg_name_is_illegal), with an architecture behind it: such a
name ends in command lines, where another one could be an option."""
