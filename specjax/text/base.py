"""The one error of this package."""


class TextError(ValueError):
  """A tokenizer, template or text that cannot be used, in one line."""

  def __init__(self, message: str):
    super().__init__(" ".join(message.split()))
