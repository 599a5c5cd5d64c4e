"""Secrets, told by the name of a variable or by the look of a text: one list for logs, forms, histories and profiles.

Every pattern takes time in proportion to the text, whatever is in it: repeats are bounded, or begin where the
characters before them cannot belong to them. Not recognised: passwords without a name before them, or shorter than four
letters, one-letter options (`mysql -pPASSWORD`), `pass=…` (tests and passes over data are called so), a name and a
blank before what has no digit in it, hexadecimal keys without a word that says so, and anything encoded again.
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
        r"(?<![\w-])ms-[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}",
    )
)
"""Tokens that say what they are: Hugging Face, GitHub, GitLab, AWS, Google, Slack, OAuth, JSON web tokens, OpenAI and
Anthropic, NVIDIA, package indexes, Docker, age, ModelScope."""

_VALUE = r"[^\s\"',;&\\]"
_QUOTE = r"(?:\\?[\"'])"
_LOGINS = (
    r"(?:db|database|sql|mysql|pg|postgres|mongo|redis|smtp|mail|ldap|ftp|ssh|http|proxy|user|admin|root|login|auth"
    r"|registry|docker|git|api|ray|minio)"
)
"""What has a password that may be called `pass`; a forward pass has none."""
_NAMED = (
    r"((?<!eos_)(?<!pad_)(?<!bos_)(?<!unk_)(?<!mask_)(?<!cls_)(?<!sep_)(?<!stop_)"
    r"(?:passw(?:or)?d|passphrase|pgpass|secret|token|api[_-]?key|access[_-]?key|account[_-]?key|private[_-]?key"
    r"|auth[_-]?key|license[_-]?key|subscription[_-]?key|secret[_-]?key|credentials?|(?-i:_PASS)"
    rf"|pwd(?![:= \t]{{1,4}}[.~])|(?<![a-z0-9]){_LOGINS}[_-]?pass)(?:[_-]?id)?"
    rf"{_QUOTE}?\]?[ \t]{{0,3}}(?::|=>|=)[ \t]{{0,3}}b?{_QUOTE}?)"
    r"(?![\d.,%]{1,12}(?![\w/+=-])|true\b|false\b|none\b|null\b|/|\$|<|\[|\{)"
    r"(?:(?<=\")[^\s\"\\][^\"\\\r\n]{3,500}(?=\\?\")|(?<=')[^\s'\\][^'\\\r\n]{3,500}(?=\\?')"
    rf"|{_VALUE}{{4,500}})"
)
"""A variable, key or option whose name says what it holds, then its value: in quotes, or up to a blank."""
_ENDING = r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASS|PWD|CREDENTIALS?)"
_MIXED = rf"(?=\S{{0,100}}\d)(?=\S{{0,100}}[a-z])(?![/$<\[{{.~]){_VALUE}{{8,500}}"
"""A value that is no word of a sentence, no number and no path."""
_NAMED_BLANK = (
    r"((?-i:(?<![A-Z])(?!(?:PUBLIC|PAD|EOS|BOS|UNK|MASK|CLS|SEP|STOP|SPECIAL)_)"
    rf"[A-Z][A-Z0-9]{{0,30}}_{_ENDING})[ \t]{{1,3}}{_QUOTE}?){_MIXED}",
    r"((?:(?:api|access|secret|wandb)_key|password|secret|(?:access|auth|hf|hub)_token)[ \t]\.{2,60}[ \t])" + _MIXED,
    rf"(\bname{_QUOTE}?[:=][ \t]{{0,3}}{_QUOTE}?\w{{0,60}}(?-i:{_ENDING}){_QUOTE}?,[ \t]{{0,3}}{_QUOTE}?value{_QUOTE}?"
    rf"[:=][ \t]{{0,3}}{_QUOTE}?){_VALUE}{{4,500}}",
)
"""A variable's name and a blank; a line of Megatron's table of arguments; a variable of a pod."""
_AFTER = "|".join(
    (
        _NAMED,
        *_NAMED_BLANK,
        rf"(--?[a-z-]{{0,30}}(?:password|passwd|token|secret|api-?key|access-?key)[ \t]{{1,3}}{_QUOTE}?)(?!-)"
        rf"(?:(?<=\")[^\"\\\r\n]{{4,500}}(?=\\?\")|(?<=')[^'\\\r\n]{{4,500}}(?=\\?')|{_VALUE}{{4,500}})",
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
AFTER = rf"(?=[a-z_?&:-])(?:{_AFTER})"
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


_KEY = re.compile(PRIVATE_KEY + r"(?:(?!-----END)[\s\S]){0,20000}(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?")


def redact(text: str) -> str:
    """The text without what can be told to be a secret, for messages of our own; logs have `parsers.secrets`."""
    text = _SHAPE.sub(REDACTED, _KEY.sub(REDACTED, text))
    return _ANNOUNCED.sub(lambda match: next(each for each in match.groups() if each is not None) + REDACTED, text)
