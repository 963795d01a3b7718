"""What a measurement ran on and with, so that two of them can be compared."""

import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax

_PACKAGES = ("specjax", "jax", "jaxlib", "flax", "numpy")


def machine() -> dict[str, Any]:
  """Where it runs: known before a model is loaded, and no name of a host."""
  device = jax.devices()[0]
  return {
    "backend": jax.default_backend(),
    "device": device.device_kind,
    "device_count": jax.device_count(),
    "processes": jax.process_count(),
    "cpu": _cpu(),
    "cores": _cores(),
    "system": f"{platform.system()} {platform.machine()}",
    "python": platform.python_version(),
    "versions": {name: _version(name) for name in _PACKAGES},
    "xla_flags": os.environ.get("XLA_FLAGS", "").strip(),
  }


def describe(
  model: str, dtype: str, config: Mapping[str, Any], route: str = ""
) -> dict[str, Any]:
  """What every record carries.

  Args:
    model: the target's name.
    dtype: of its weights.
    config: of the run; its hash is kept.
    route: a free tag, by which runs are joined and compared.

  Returns:
    model, dtype, route, config_hash, commit (None outside a checkout; with a
    "+" where the checkout has changes) and the fields of `machine`.
  """
  return {
    "model": model,
    "dtype": dtype,
    "route": route,
    "config_hash": config_hash(config),
    "commit": commit(),
    **machine(),
  }


def config_hash(config: Mapping[str, Any]) -> str:
  """Twelve hexadecimal digits; equal for equal configs in any order."""
  text = json.dumps(config, sort_keys=True, default=str)
  return hashlib.sha256(text.encode()).hexdigest()[:12]


def commit() -> str | None:
  """Of the checkout that the package lies in."""
  root = Path(__file__).resolve().parents[3]
  if not (root / ".git").exists():
    return None
  try:
    head = _git(root, "rev-parse", "--short=12", "HEAD")
    changed = _git(root, "status", "--porcelain", "--untracked-files=no")
  except (OSError, subprocess.SubprocessError):
    return None
  return head + ("+" if changed else "")


def _git(root: Path, *arguments: str) -> str:
  done = subprocess.run(
    ["git", "-C", str(root), *arguments],
    capture_output=True,
    text=True,
    check=True,
    timeout=10,
  )
  return done.stdout.strip()


def _version(name: str) -> str | None:
  try:
    return importlib.metadata.version(name)
  except importlib.metadata.PackageNotFoundError:  # run from its source
    return None


def _cpu() -> str:
  try:
    with open("/proc/cpuinfo", encoding="utf-8") as file:
      for line in file:
        if line.startswith("model name"):
          return line.partition(":")[2].strip()
  except OSError:
    pass
  return platform.processor() or platform.machine()


def _cores() -> int:
  """Those that the process may use."""
  if hasattr(os, "sched_getaffinity"):
    return len(os.sched_getaffinity(0))
  return os.cpu_count() or 1
