"""What a mode claims of its output, and whether the answers bear it out."""

from typing import Any

from specjax.evaluation.records import Mode


def describe_law(mode: Mode, identity: dict[str, Any] | None = None) -> str:
  """What is known of the output law of a mode, plainly.

  A rule's claim that the run's own answers do not bear out is said so.
  """
  if mode.is_plain and mode.lossless:
    return "plain decoding of the target"
  if mode.lossless is None:
    return f"{mode.system} does not state its law"
  rule = f" (rule {mode.rule})" if mode.rule else ""
  if not mode.lossless:
    return f"LOSSY: the output law is not the target's{rule}"
  if _unexplained(identity):
    return f"lossless by its rule{rule}, but NOT CONFIRMED here"
  return f"lossless: the output law is exactly the target's{rule}"


def describe_identity(identity: dict[str, Any] | None) -> str:
  """How the token ids of a mode compare with those of plain decoding."""
  if not identity or not identity.get("compared"):
    return "token ids were not compared: they need not be plain decoding's"
  compared, equal = identity["compared"], identity["equal"]
  if equal == compared:
    return f"token ids are plain decoding's in all {compared} answers"
  text = f"token ids are plain decoding's in {equal} of {compared} answers"
  ties = identity.get("near_ties")
  if ties is None:
    return f"{text}; the rest was not searched for near-ties"
  return f"{text}; {ties} of the {compared - equal} differences are near-ties"


def _unexplained(identity: dict[str, Any] | None) -> int:
  """Answers that differ although they must not, near-ties left out."""
  if not identity:
    return 0
  return identity["compared"] - identity["equal"] - (identity["near_ties"] or 0)
