"""Accelerators by name: peaks of one chip, as their makers print them.

"Google" and "vendor" name the maker's public specification page. What a program
reaches is less: `roofline` takes shares of the two peaks.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Device:
  """Peaks of one chip.

  Attributes:
    operations: of dense 16-bit matrix products, a second.
    bandwidth: of its memory, bytes a second.
    memory: bytes.
    link: to the other chips, bytes a second in one direction; 0 is none.
    source: where the figures stand.
  """

  operations: float
  bandwidth: float
  memory: float
  link: float
  source: str

  @property
  def ridge(self) -> float:
    """Operations a byte at which the two peaks take the same time."""
    return self.operations / self.bandwidth


DEVICES: dict[str, Device] = {
  "a100-80gb": Device(312e12, 2039e9, 80e9, 300e9, "vendor, SXM"),
  "a100-40gb": Device(312e12, 1555e9, 40e9, 300e9, "vendor, SXM"),
  "h100": Device(989.5e12, 3350e9, 80e9, 450e9, "vendor, SXM"),
  "h200": Device(989.5e12, 4800e9, 141e9, 450e9, "vendor, SXM"),
  "tpu-v4": Device(275e12, 1200e9, 32.0 * 2**30, 300e9, "Google"),
  "tpu-v5e": Device(197e12, 819e9, 16e9, 200e9, "Google"),
  "tpu-v5p": Device(459e12, 2765e9, 95e9, 600e9, "Google"),
  "tpu-v6e": Device(918e12, 1638e9, 32e9, 400e9, "Google"),
}


def device(name: str) -> Device:
  """A device by name.

  Raises:
    ValueError: no such device.
  """
  if name not in DEVICES:
    raise ValueError(f"unknown device {name!r}; known: {', '.join(DEVICES)}")
  return DEVICES[name]
