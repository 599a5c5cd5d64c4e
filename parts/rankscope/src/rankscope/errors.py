"""The error of answers that cannot be read."""


class UnreadableAnswer(Exception):
    """An answer that cannot be read, or that would cost too much: one sentence."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
