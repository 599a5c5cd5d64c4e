"""Key to paint in the whole launch form: every field of the biggest recipe in sight, the views beside it."""

from tests.bench.consoles import DOWN, UP, Program, keys
from tests.bench.terminal import Paint, Terminal

LETTERS = b"abcdefghijklmnopqrst"
ENTER, ALL_FIELDS, ERASE = b"\r", b"\x14", b"\x7f"
RECIPES_ABOVE = 8
"""Of the recipe with most fields."""


def form_keys(program: Program) -> dict[str, tuple[Paint, ...]]:
    """Timings by what is pressed: letters in a field, the arrow keys, the cursor over the list of recipes."""
    with Terminal(program.argv, program.environment) as terminal:
        terminal.wait("the first screen", lambda text: bool(text.strip()), 30)
        terminal.write(b"5")
        terminal.wait("the form", lambda text: "Name" in text and "GPUs" in text, 60)
        terminal.settle(20)
        recipes = keys(terminal, DOWN, UP)
        for _ in range(RECIPES_ABOVE):
            terminal.press(DOWN)
        terminal.write(ENTER + ALL_FIELDS)
        terminal.wait("all its fields", lambda text: "Code and packages" in text, 30)
        terminal.settle(20)
        letters = tuple(terminal.press(bytes([letter])) for letter in LETTERS)
        erased = tuple(terminal.press(ERASE) for _ in LETTERS)
        fields = keys(terminal, DOWN, UP)
        return {"a letter": letters + erased, "another field": fields, "another recipe": recipes}
