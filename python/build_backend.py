"""The build backend of the Python package: meson-python, and a hook for metadata.

meson-python has none. Without it pip builds the whole wheel in "Preparing metadata", which shows no
progress."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from mesonpy import (build_editable, build_sdist, build_wheel, get_requires_for_build_editable,
                     get_requires_for_build_sdist, get_requires_for_build_wheel)
from packaging.version import Version
from pyproject_metadata import StandardMetadata

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["build_editable", "build_sdist", "build_wheel", "get_requires_for_build_editable",
           "get_requires_for_build_sdist", "get_requires_for_build_wheel",
           "prepare_metadata_for_build_editable", "prepare_metadata_for_build_wheel"]


def _version() -> Version:
    """Returns the version in meson.build, which meson reads without configuring a build."""
    meson = os.environ.get("MESON", "meson")
    told = subprocess.run([meson, "introspect", "--projectinfo", "meson.build"], check=False,
                          capture_output=True, text=True)
    if told.returncode:  # otherwise stderr has only warnings about what meson does not evaluate
        raise RuntimeError(f"{meson} cannot read meson.build: {told.stderr}")
    return Version(json.loads(told.stdout)["version"])


def prepare_metadata_for_build_wheel(metadata_directory: str,
                                     config_settings: dict[str, Any] | None = None) -> str:
    """Writes METADATA as meson-python writes it into the wheel."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    metadata = StandardMetadata.from_pyproject(project, Path.cwd())
    metadata.version = _version()
    name = metadata.name.replace("-", "_")
    folder = Path(metadata_directory) / f"{name}-{metadata.version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_bytes(bytes(metadata.as_rfc822()))
    return folder.name


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel
