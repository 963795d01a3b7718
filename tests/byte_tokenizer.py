"""A tokenizer that needs no file."""

import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from specjax.text import Tokenizer
from specjax.text.pieces import byte_alphabet


def byte_tokenizer(template=None):
  """A token a byte, and one that ends the text."""
  backend = tokenizers.Tokenizer(models.BPE(byte_alphabet(), []))
  backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
  backend.decoder = decoders.ByteLevel()
  backend.add_special_tokens(["</s>"])
  return Tokenizer(backend, eos_ids=(256,), chat_template=template)
