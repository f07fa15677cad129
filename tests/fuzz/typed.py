"""What is typed: a language's texts, respelt."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.fuzz.mutation import NUMBERS, respelt
from tests.fuzz.target import Case


def text_of(samples: tuple[str, ...], words: tuple[str, ...]) -> Callable[[Random], Case]:
    """What makes cases of the texts and the words of a language."""

    def make(random: Random) -> Case:
        text = random.choice(samples)
        if random.random() < 0.1:
            text = " ".join(random.choice((*words, *NUMBERS[:20])) for _ in range(random.randint(1, 12)))
        text = respelt(random, text, words, most=random.choice((1, 1, 2, 5)))
        return Case(text.encode("utf-8", "surrogatepass"))

    return make


def typed(case: Case) -> str:
    """The text of a case."""
    return case.data.decode("utf-8", "surrogatepass")
