"""The error of answers that cannot be read."""


class UnreadableAnswer(Exception):
    """Raised for an answer that cannot be read or would cost too much; its text is one sentence."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
