"""Where one of the two clusters is known to differ: test and cluster -> why. Anything else that differs is a bug.

A test named here must fail there (strict xfail): when the gap closes, the line has to go.
"""

from __future__ import annotations

EXCEPTIONS: dict[str, str] = {
    "test_the_exit_code_of_a_command[lab]": "kwok loses the exit code of a command; a kubelet gives it",
    "test_a_command_learns_that_its_input_has_ended[lab]": "kwok leaves a command's input open; a kubelet closes it",
    "test_a_followed_log_ends_with_its_container[lab]": "kwok follows the log of an ended pod for ever",
}
