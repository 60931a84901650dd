"""The words of a text, and how many of them a transcription has wrong. Standard library only."""

from __future__ import annotations

import re


def words(text: str) -> list[str]:
    """Return the words without case, marks and the ``<s>`` of speech corpora; "it's" stays one word."""
    plain = re.sub(r"<[^>]*>", " ", text.lower()).replace("’", "'")
    return re.findall(r"[^\W_]+(?:'[^\W_]+)*", plain)


def word_errors(heard: str, said: str) -> int:
    """Return the least number of words to replace, insert or delete; divided by the words said it is the WER."""
    have, want = words(heard), words(said)
    row = list(range(len(want) + 1))
    for at, word in enumerate(have, 1):
        before, row = row, [at]
        for place, right in enumerate(want, 1):
            row.append(min(before[place] + 1, row[-1] + 1, before[place - 1] + (word != right)))
    return row[-1]
