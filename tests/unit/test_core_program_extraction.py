"""The program of an answer, whatever stands around it."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.core.scoring.program.extraction import find_program
from services.core.scoring.program.syntax import LONGEST, NotPython, read_python

F = "def f(x):\n    return x + 1"

FOUND = {
    "plain": (F, F),
    "carriage returns": (F.replace("\n", "\r\n"), F),
    "fenced": (f"```python\n{F}\n```", F),
    "no language": (f"```\n{F}\n```", F),
    "prose around": (f"Sure!\n\n```py\n{F}\n```\nThis adds one.", F),
    "never closed": (f"Here:\n```python\n{F}\n", F),
    "closed on the last line": (f"Here:\n```python\n{F}```\nDone.", F),
    "tildes": (f"~~~python\n{F}\n~~~", F),
    "four ticks": (f"````python\n{F}\n````", F),
    "capital language": (f"```Python3\n{F}\n```", F),
    "braces": (f"```{{python}}\n{F}\n```", F),
    "in a list": ("1. So:\n   ```python\n   def f(x):\n       return x + 1\n   ```", F),
    "quoted": (f"> ```python\n{F}\n> ```", F),
    "the last of two": (f"```python\ndef f(x):\n    return x\n```\nBetter:\n```python\n{F}\n```", F),
    "output behind": (f"```python\n{F}\n```\nOutput:\n```text\n2\n```", F),
    "shell behind": (f"```python\n{F}\n```\n```bash\npython f.py\n```", F),
    "example behind": (f"```python\n{F}\n```\nExample:\n```python\nprint(f(1))\n```", F),
    "ticks in a docstring": ('def f(x):\n    """\n    ```\n    f(1)\n    ```\n    """\n    return x + 1',) * 2,
    "prose before, no fence": (f"Here is the function.\n\n{F}", F),
    "prose behind, no fence": (f"{F}\n\nThis doesn't need more.", F),
    "prose that begins like code": (f"for this we add one.\n{F}", F),
    "odd escapes": ('import re\ndef f(x):\n    return re.sub("\\d", "", x)',) * 2,
    "indented as a whole": ("    def f(x):\n        return x + 1", F),
    "no-break spaces": ("def f(x):\n\u00a0\u00a0\u00a0\u00a0return x + 1", F),
    "blank lines in a text": ('def f(x):\n    return """\n  \n"""',) * 2,
    "byte order mark": ("\ufeff" + F, F),
    "lambda": ("f = lambda x: x + 1",) * 2,
    "broken, fenced": ("```python\ndef f(x:\n```", "def f(x:"),
    "broken, no fence": ("def f(x):\n  return x +",) * 2,
    "another language": ("```cpp\nint main() {}\n```", "int main() {}"),
}


@pytest.mark.parametrize("name", FOUND)
def test_the_program_is_found(name: str) -> None:
    answer, program = FOUND[name]
    assert find_program(answer, "f") == program


@pytest.mark.parametrize(
    "answer",
    ["", "  ", "42", "Yes", "I cannot.", "x + 1", "[1, 2]", "```\n```", "if you like, no", "'text'"],
)
def test_an_answer_without_a_program_has_none(answer: str) -> None:
    assert find_program(answer, "f") is None


@given(st.text(alphabet=st.sampled_from("`~\n defx():python=1'\\\"#\t,."), max_size=60))
def test_any_text_is_read_without_an_error(answer: str) -> None:
    program = find_program(answer, "f")
    assert program is None or program.strip()


DEEP = {
    "unary": "-" * 30_000 + "1",
    "not": "not " * 20_000 + "x",
    "attributes": "a" + ".b" * 40_000,
    "calls": "a" + "()" * 40_000,
    "sums": "1" + "+1" * 40_000,
    "lambdas": "lambda:" * 10_000 + "1",
    "brackets": "[" * 5_000 + "]" * 5_000,
    "elif": "if 1: pass\n" + "elif 1: pass\n" * 7_000,
    "nul": "x = 1\0",
    "half a character": "x = '\ud800'",
    "long": "x = 1\n" * LONGEST,
}


@pytest.mark.parametrize("name", DEEP)
def test_a_hostile_text_is_refused_in_a_thread(name: str) -> None:
    refused: list[NotPython] = []

    def read() -> None:
        with pytest.raises(NotPython) as caught:
            read_python(DEEP[name])
        refused.append(caught.value)

    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    assert len(refused) == 1


@pytest.mark.parametrize(
    "text", ['a = "\\d"', "b'\\u1234'", "x = 1if y else 2", "r'\\d'", "f'{x!r:\\>3}'", "a = '\\\n'"]
)
def test_what_only_warns_is_python(text: str) -> None:
    read_python(text)


def test_the_line_of_an_error_is_told() -> None:
    with pytest.raises(NotPython, match=r"^line 2: ") as caught:
        read_python("x = 1\ny = = 2\n")
    assert caught.value.line == 2
