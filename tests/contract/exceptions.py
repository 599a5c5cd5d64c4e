"""Where one of the two clusters is known to differ: test and cluster -> why. Anything else that differs is a bug.

A test named here must fail there (strict xfail): when the gap closes, the line has to go.
"""

_WEBHOOK = "GKE's webhook makes resources of a pod's interfaces; the lab has no GKE"
_KUBELET = "a kubelet pulls images and mounts buckets; kwok starts pods without looking"
_UNPULLED = ("registry", "hub", "tag", "repository")
_UNMOUNTED = ("unknown", "locked", "without the annotation")
EXCEPTIONS: dict[str, str] = {
    "test_the_exit_code_of_a_command[lab]": "kwok loses the exit code of a command; a kubelet gives it",
    "test_a_command_learns_that_its_input_has_ended[lab]": "kwok leaves a command's input open; a kubelet closes it",
    "test_a_followed_log_ends_with_its_container[lab]": "kwok follows the log of an ended pod for ever",
    "test_interfaces_become_resources_of_the_first_container[lab]": _WEBHOOK,
    "test_small_jobs_with_interfaces_block_each_other[lab]": _WEBHOOK,
    **{f"test_interfaces_that_cannot_be[lab-{each}]": _WEBHOOK for each in ("unknown", "broken", "default", "twice")},
    **{f"test_an_image_that_is_not_there[lab-{each}]": _KUBELET for each in _UNPULLED},
    **{f"test_a_bucket_that_cannot_be_mounted[lab-{each}]": _KUBELET for each in _UNMOUNTED},
}
