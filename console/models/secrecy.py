"""Secrets, told by the name of a variable or by the look of a text: one list for logs, forms, histories and profiles.

Every pattern takes time in proportion to the text, whatever is in it: repeats are bounded, or begin where the
characters before them cannot belong to them. Not recognised: passwords without a name before them, one-letter options
(`mysql -pPASSWORD`), hexadecimal keys without a word that says so, and anything encoded again.
"""

from __future__ import annotations

import re

REDACTED = "‹secret›"
"""What stands in place of a secret."""
_NAMES = {
    "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "PASS", "PWD", "KEY", "APIKEY", "CREDENTIAL", "CREDENTIALS",
    "DSN", "AUTHORIZATION",
}  # fmt: skip
_ENDS = ("TOKEN", "SECRET", "PASSWORD", "PASSWD", "KEY")
_TAMED = {"PUBLIC", "PAD", "EOS", "BOS", "UNK", "MASK", "CLS", "SEP", "STOP", "SPECIAL", "SSHPUBLICKEY"}
"""A public key and the special tokens of a tokenizer are no secrets."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_HARMLESS = re.compile(r"\d{0,6}|true|false|yes|no|none|null|/.*|\$.*|<.*>|\[.*\]", re.IGNORECASE)
"""A switch, a number, the path of a file, a reference or a special token, whatever its variable is called."""

SHAPES = "|".join(
    (
        r"\bhf_(?:(?=[a-z]{0,40}[A-Z0-9])[A-Za-z0-9]{8,}|[a-z]{14,})",
        r"\bgh[pousr]_[A-Za-z0-9]{16,}",
        r"\bgithub_pat_\w{16,}",
        r"\bglpat-[\w-]{16,}",
        r"\b(?:AKIA|ASIA)[0-9A-Z]{12,}",
        r"\bAIza[\w-]{30,}",
        r"\bxox[abeprs]-[\w-]{10,}",
        r"\bhooks\.slack\.com/services/[\w/]{8,}",
        r"\bya29\.[\w.-]{10,}",
        r"\bGOCSPX-[\w-]{16,}",
        r"(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*",
        r"\bsk-[\w-]{20,}",
        r"\bnvapi-[\w-]{16,}",
        r"\bpypi-[\w-]{16,}",
        r"\bnpm_[A-Za-z0-9]{16,}",
        r"\bdckr_pat_[\w-]{16,}",
        r"\bAGE-SECRET-KEY-1[0-9A-Z]{16,}",
    )
)
"""Tokens that say what they are: Hugging Face, GitHub, GitLab, AWS, Google, Slack, OAuth, JSON web tokens, OpenAI and
Anthropic, NVIDIA, package indexes, Docker, age."""

_VALUE = r"[^\s\"',;&\\]"
_NAMED = (
    r"((?<!eos_)(?<!pad_)(?<!bos_)(?<!unk_)(?<!mask_)(?<!cls_)(?<!sep_)(?<!stop_)"
    r"(?:passw(?:or)?d|passphrase|pgpass|secret|token|api[_-]?key|access[_-]?key|account[_-]?key|private[_-]?key"
    r"|auth[_-]?key|license[_-]?key|subscription[_-]?key|secret[_-]?key|credentials?|(?-i:_PASS|PWD))(?:[_-]?id)?"
    r"(?:\\?[\"'])?\]?[ \t]{0,3}(?::|=>|=)[ \t]{0,3}b?(?:\\?[\"'])?)"
    rf"(?![\d.,%]{{1,12}}(?![\w/+=-])|true\b|false\b|none\b|null\b|/|\$|<|\[|\{{){_VALUE}{{4,500}}"
)
"""A variable, key or option whose name says what it holds, then its value."""
AFTER = "|".join(
    (
        _NAMED,
        rf"(--?[a-z-]{{0,30}}(?:password|passwd|token|secret|api-?key|access-?key)[ \t]{{1,3}})(?!-){_VALUE}{{4,500}}",
        r"(authorization(?:\\?[\"'])?[ \t]{0,3}[:=][ \t]{0,3}(?:\\?[\"'])?(?:basic|bearer|token|digest)[ \t]{1,3})"
        r"[^\s\"']{4,}",
        r"(\bbearer[ \t]{1,3})(?=[^\s\"']{0,200}[\d._~+/=-])[a-z0-9._~+/=-]{8,}",
        r"(\bcookie(?:\\?[\"'])?[ \t]{0,3}:[ \t]{0,3})[^\r\n]{8,500}",
        r"(\bwandb[a-z_ .:-]{0,20}[=: ][ \t]?[\"']?)[0-9a-f]{40}\b",
        r"(\b(?:docker|podman|helm registry) login [^\n]{0,100}?-p[ =])\S{4,200}",
        r"(\bcurl [^\n]{0,80}?-u[ =]?[\"']?[^\s:\"']{1,60}:)[^\s\"']{4,200}",
        r"([?&](?:sig|x-goog-signature|x-amz-signature|access_token|key)=)[^\s&\"']{8,}",
        r"(://[^\s/:@]{0,100}:)[^\s/@]{1,500}(?=@)",
        r"(://)[^\s/:@]{16,200}(?=@)",
    )
)
"""What stands after words that announce a secret; the one group of each that matches is kept."""
_SHAPE = re.compile(SHAPES)
_ANNOUNCED = re.compile(AFTER, re.IGNORECASE)
PRIVATE_KEY = r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----"
_PRIVATE_KEY = re.compile(PRIVATE_KEY)


def is_confidential(name: str, value: object = None) -> bool:
    """Whether a variable of that name holds a secret, so that its value is neither shown nor kept."""
    words = [word.upper() for word in _WORD.findall(name)]
    if _TAMED.intersection(words) or not any(word in _NAMES or word.endswith(_ENDS) for word in words):
        return False
    return not (isinstance(value, str) and _HARMLESS.fullmatch(value))


def looks_confidential(text: str) -> bool:
    """Whether a text holds a token, a key, or words that announce one."""
    return any(pattern.search(text) is not None for pattern in (_SHAPE, _ANNOUNCED, _PRIVATE_KEY))
