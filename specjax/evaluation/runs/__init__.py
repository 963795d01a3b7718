"""The interleaved run: modes, questions, answers, its folder."""
