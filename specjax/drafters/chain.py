"""What drafters of one node a depth have in common."""

from typing import TYPE_CHECKING, Any

from specjax.types import Feedback, Params


class Chain:
  """Sizes of a chain of `num_speculative_tokens`, and no state.

  A base for frozen dataclasses, which declare `num_speculative_tokens` and give
  `propose`. Two widths are compiled: a pass without nodes, and one with all.
  """

  if TYPE_CHECKING:  # a field of the dataclass, wherever it stands there

    @property
    def num_speculative_tokens(self) -> int: ...

  siblings = "chain"
  num_riders = 0
  taps = ()
  reads_logits = False

  def __post_init__(self):
    number = self.num_speculative_tokens
    if isinstance(number, bool) or not isinstance(number, int):
      raise ValueError(
        f"num_speculative_tokens must be a whole number, got {number!r}"
      )
    if number < 1:
      raise ValueError(
        f"num_speculative_tokens must be at least 1 for {type(self).__name__},"
        f" got {number}; the drafter for none is NoDraft (--drafter=none)"
      )

  @property
  def num_nodes(self) -> int:
    return self.num_speculative_tokens

  @property
  def max_depth(self) -> int:
    return self.num_speculative_tokens

  @property
  def widths(self) -> tuple[int, ...]:
    return (1, 1 + self.num_speculative_tokens)

  def init(self, params: Params, batch: int, capacity: int) -> Any:
    return ()

  def observe(self, params: Params, state: Any, seen: Feedback) -> Any:
    return state
