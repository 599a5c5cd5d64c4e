"""Why a pod does not get its image, out of what the kubelet and containerd say."""

from __future__ import annotations

import re

_IMAGE = re.compile(r'image "([^"]+)"')
_SIGNS = (
    (("not found", "manifest unknown", "manifest_unknown"), "there is no image {image}"),
    (
        ("403 forbidden", "401 unauthorized", "access denied", "failed to authorize", "permission_denied", "denied:"),
        "the nodes may not read {image}, or it is not there",
    ),
    (("429 too many", "toomanyrequests"), "the registry of {image} is asked too often"),
    (("no space left", "disk pressure"), "a node has no room for {image}"),
    (("no match for platform", "exec format"), "{image} is not for this kind of machine"),
    (
        ("i/o timeout", "no such host", "connection refused", "deadline exceeded", "network is unreachable"),
        "the nodes do not reach the registry of {image}",
    ),
    (("invalid reference", "couldn't parse image", "invalidimagename"), "{image} is no name of an image"),
)
"""Parts of the message in small letters -> what they mean; the first that fits counts."""


def why_no_image(reason: str, message: str) -> str:
    """One sentence without its end: what is wrong with the image; the API's own words where they say nothing known."""
    found = _IMAGE.search(message)
    image = found[1] if found else "its image"
    text = message.lower()
    for signs, words in _SIGNS:
        if any(sign in text for sign in signs):
            return words.format(image=image)
    if message.startswith("Back-off pulling"):
        return f"{image} could not be pulled"
    return message or reason
