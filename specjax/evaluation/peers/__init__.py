"""Other systems that decode the same prompts, each in a process of its own.

`available` says what is missing, `start` loads one. They need the extra
[compare].
"""

from specjax.evaluation.peers.process import Peer, start
from specjax.evaluation.peers.registry import (
  NAMES,
  Kind,
  PeerAnswer,
  Settings,
  available,
  kind,
)

__all__ = [
  "NAMES",
  "Kind",
  "Peer",
  "PeerAnswer",
  "Settings",
  "available",
  "kind",
  "start",
]
