"""Writes tokenizer_ids.json: ids that tokenizers rebuilt from GGUF must give.

Two references that share no code with specjax or with `tokenizers`: byte-level
BPE written out below as llama.cpp does it (patterns of its src/llama-vocab.cpp,
lowest-ranked merge first), and SentencePiece itself on a small vocabulary that
it trains here. Needs gguf, regex and sentencepiece:

  python tests/data/make_tokenizer_ids.py SmolLM2-135M-Instruct.Q4_1.gguf
"""

import io
import json
import pathlib
import sys
import unicodedata

import gguf
import regex
import sentencepiece

GPT2 = (
  r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
)
LLAMA3 = (
  r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
  r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
  r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
PATTERNS = {
  "smollm": [r"\p{N}", GPT2],
  "gpt-2": [GPT2],
  "llama-bpe": [LLAMA3],
  "qwen2": [LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")],
}
TEXTS = [
  "",
  " ",
  "Hello world",
  " leading and trailing ",
  "two  three   four    spaces",
  "a" + " " * 17 + "b",
  "line\nline\n\nline\n\n\n\nend\n",
  "\r\nwindows\r\n\r\nends",
  "\tone\t\ttwo \t three\t",
  " \n \n\t \n x",
  "0 12 345 6789 3.14159 1,000,000 2024-05-01",
  "x86_64 v1.2.3rc4 0xDEADBEEF",
  "½ ² Ⅷ ٣ 五 ①",
  "café naïve Ångström œuvre",
  "cafe\u0301 A\u030angstro\u0308m z\u0335\u0321\u0353",
  "日本語のテキスト、中文文本。한국어",
  "Привет, мир! שלום مرحبا नमस्ते",
  "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇯🇵 ☕",
  "emoji👍inside👍🏽words",
  "I'm you're WE'LL they'Ve don't 'tis '",
  "“curly” ‘quotes’ – — …",
  "if (a != b) { return a[i++] && ~b; }  // c",
  "def f(x):\n    return x ** 2\n\n\nprint(f(3))\n",
  "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
  "a<|endoftext|>b <|endoftext|> c<|endoftext|>",
  "<|im_start|><|im_start|> <|im_end",
  "<repo_name>x<file_sep>y <jupyter_code>",
  "\u00a0no-break\u2003em\u200bzero\ufeffbom",
  "\x00\x01\x7f control",
  "ﬁ ﬀ ℌ 𝒜 𝟘",
  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
  "https://example.org/a?b=c&d=%20e#f",
  "$\\sum_{i=1}^{n} x_i^2 \\leq \\frac{1}{2}$",
  "▁already ▁▁ marked",
]
CORPUS = """
The lighthouse stood at the end of the land, and the lamp turned in the night.
A keeper wrote in the log: wind from the west, rain, three ships seen.
In the morning the sea was still, the light went out, and the gulls came back.
When the storm came again the keeper counted the seconds between the waves.
"""


def alphabet() -> dict[int, str]:
  visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
  hidden = [byte for byte in range(256) if byte not in visible]
  table = {byte: chr(byte) for byte in visible}
  return table | {byte: chr(256 + i) for i, byte in enumerate(hidden)}


def isolate(pattern: str, parts: list[str]) -> list[str]:
  result = []
  for part in parts:
    end = 0
    for match in regex.finditer(pattern, part):
      result += [part[end : match.start()], match.group()]
      end = match.end()
    result.append(part[end:])
  return [part for part in result if part]


def merge(word: list[str], ranks: dict[tuple[str, str], int]) -> list[str]:
  while True:
    pairs = list(zip(word, word[1:], strict=False))
    best = (
      min((ranks.get(p, len(ranks)), i) for i, p in enumerate(pairs))
      if pairs
      else (len(ranks), 0)
    )
    if best[0] == len(ranks):
      return word
    i = best[1]
    word = [*word[:i], word[i] + word[i + 1], *word[i + 2 :]]


def byte_level(path: str) -> dict:
  fields = gguf.GGUFReader(path).fields
  read = {
    key: fields[f"tokenizer.ggml.{key}"].contents()
    for key in ("tokens", "token_type", "merges")
  }
  ids = {token: i for i, token in enumerate(read["tokens"])}
  ranks = {tuple(pair.split(" ")): i for i, pair in enumerate(read["merges"])}
  special = [
    token
    for token, kind in zip(read["tokens"], read["token_type"], strict=True)
    if kind == 3
  ]
  special.sort(key=len, reverse=True)
  pattern = "(" + "|".join(map(regex.escape, special)) + ")"
  characters = alphabet()

  def encode(text: str, kind: str) -> list[int]:
    result = []
    for part in filter(None, regex.split(pattern, text)):
      if part in special:
        result.append(ids[part])
        continue
      words = [unicodedata.normalize("NFC", part) if kind == "qwen2" else part]
      for split in PATTERNS[kind]:
        words = isolate(split, words)
      for word in words:
        spelt = [characters[byte] for byte in word.encode()]
        # Llama 3 takes a word that is a token whole.
        whole = "".join(spelt)
        if kind == "llama-bpe" and whole in ids:
          result.append(ids[whole])
        else:
          result += [ids[token] for token in merge(spelt, ranks)]
    return result

  return {kind: [encode(text, kind) for text in TEXTS] for kind in PATTERNS}


def sentence_piece() -> dict:
  model = io.BytesIO()
  sentencepiece.SentencePieceTrainer.train(
    sentence_iterator=iter(CORPUS.strip().splitlines()),
    model_writer=model,
    vocab_size=420,
    model_type="bpe",
    byte_fallback=True,
    normalization_rule_name="identity",
    remove_extra_whitespaces=False,
    character_coverage=1.0,
    minloglevel=2,
  )
  processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
  count = range(processor.vocab_size())

  def kind(index: int) -> int:
    if processor.is_unknown(index):
      return 2
    if processor.is_control(index):
      return 3
    return 6 if processor.is_byte(index) else 1

  return {
    "tokens": [processor.id_to_piece(i) for i in count],
    "scores": [processor.get_score(i) for i in count],
    "token_type": [kind(i) for i in count],
    "texts": [*TEXTS, *CORPUS.strip().splitlines(), CORPUS],
    "ids": [
      processor.encode(text)
      for text in [*TEXTS, *CORPUS.strip().splitlines(), CORPUS]
    ],
  }


def main() -> None:
  data = {
    "texts": TEXTS,
    "byte_level": byte_level(sys.argv[1]),
    "sentencepiece": sentence_piece(),
  }
  target = pathlib.Path(__file__).with_name("tokenizer_ids.json")
  target.write_text(json.dumps(data, ensure_ascii=True) + "\n")


if __name__ == "__main__":
  main()
