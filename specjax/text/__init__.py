"""Tokenizers, chats, streamed text and stop strings."""

from specjax.text.base import TextError
from specjax.text.compare import compare_vocabularies
from specjax.text.stops import cut_at_stop, safe_length, stop_tables
from specjax.text.streaming import Burst, StreamDecoder
from specjax.text.tokenizer import Tokenizer

__all__ = [
  "Burst",
  "StreamDecoder",
  "TextError",
  "Tokenizer",
  "compare_vocabularies",
  "cut_at_stop",
  "safe_length",
  "stop_tables",
]
