"""Redacts secrets, recognised by a variable's name or by their form, in logs, forms, histories and profiles.

A block without any of the words below is only searched for them, less than 1 ns a byte; of others, the lines in which
one stands, and of these what stands around it, up to 0.7 µs a byte. Every pattern takes time in proportion to the
text: repeats are bounded, or begin where the characters before them cannot belong to them. Not recognised: passwords
without a name before them, or shorter than four letters, one-letter options but those of curl, docker and mysql,
`pass=…` (tests and passes over data are called so), a name and a blank before what has no digit in it, hexadecimal
keys without a word that says so, and anything encoded again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from console.logs.word_search import WordSearch
from console.patterns import lazy_pattern

REDACTED = "‹secret›"  # what stands in place of a secret
_SECRET_NAMES = {
    "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "PASS", "PWD", "KEY", "APIKEY", "CREDENTIAL", "CREDENTIALS",
    "DSN", "AUTHORIZATION",
}  # fmt: skip
_ENDS = ("TOKEN", "SECRET", "PASSWORD", "PASSWD", "KEY")
_NOT_SECRET = {
    "PUBLIC", "PAD", "EOS", "BOS", "UNK", "MASK", "CLS", "SEP", "STOP", "SPECIAL", "SSHPUBLICKEY",
}  # fmt: skip
_WORD = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_HARMLESS = lazy_pattern(r"\d{0,6}|true|false|yes|no|none|null|/.*|\$.*|<.*>|\[.*\]", re.IGNORECASE)
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
_LOGINS = (  # what has a password that may be called `pass`; a forward pass has none
    r"(?:db|database|sql|mysql|pg|postgres|mongo|redis|smtp|mail|ldap|ftp|ssh|http|proxy|user|admin|root|login|auth"
    r"|registry|docker|git|api|ray|minio)"
)
_NAMED = (  # a variable, key or option whose name says what it holds, then its value: in quotes, or up to a blank
    r"((?<!eos_)(?<!pad_)(?<!bos_)(?<!unk_)(?<!mask_)(?<!cls_)(?<!sep_)(?<!stop_)"
    r"(?:passw(?:or)?d|passphrase|pgpass|secret|token|api[_-]?key|access[_-]?key|account[_-]?key|private[_-]?key"
    r"|auth[_-]?key|license[_-]?key|subscription[_-]?key|secret[_-]?key|credentials?|(?-i:_PASS)"
    rf"|pwd(?![:= \t]{{1,4}}[.~])|(?<![a-z0-9]){_LOGINS}[_-]?pass)(?:[_-]?id)?"
    rf"{_QUOTE}?\]?[ \t]{{0,3}}(?::|=>|=)[ \t]{{0,3}}b?{_QUOTE}?)"
    r"(?![\d.,%]{1,12}(?![\w/+=-])|true\b|false\b|none\b|null\b|/|\$|<|\[|\{)"
    r"(?:(?<=\")[^\s\"\\][^\"\\\r\n]{3,500}(?=\\?\")|(?<=')[^\s'\\][^'\\\r\n]{3,500}(?=\\?')"
    rf"|{_VALUE}{{4,500}})"
)
_ENDING = r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASS|PWD|CREDENTIALS?)"
_MIXED = rf"(?=\S{{0,100}}\d)(?=\S{{0,100}}[a-z])(?![/$<\[{{.~]){_VALUE}{{8,500}}"  # no word, number or path
_NAMED_BLANK = (  # a variable's name and a blank; a line of Megatron's table of arguments; a variable of a pod
    r"((?-i:(?<![A-Z])(?!(?:PUBLIC|PAD|EOS|BOS|UNK|MASK|CLS|SEP|STOP|SPECIAL)_)"
    rf"[A-Z][A-Z0-9]{{0,30}}_{_ENDING})[ \t]{{1,3}}{_QUOTE}?){_MIXED}",
    r"((?:(?:api|access|secret|wandb)_key|password|secret|(?:access|auth|hf|hub)_token)[ \t]\.{2,60}[ \t])" + _MIXED,
    rf"(\bname{_QUOTE}?[:=][ \t]{{0,3}}{_QUOTE}?\w{{0,60}}(?-i:{_ENDING}){_QUOTE}?,[ \t]{{0,3}}{_QUOTE}?value{_QUOTE}?"
    rf"[:=][ \t]{{0,3}}{_QUOTE}?){_VALUE}{{4,500}}",
)
_AFTER = "|".join(
    (
        _NAMED,
        *_NAMED_BLANK,
        rf"(-[a-z]{{0,30}}(?:password|passwd|token|secret|api-?key|access-?key)[ \t]{{1,3}}{_QUOTE}?)(?!-)"
        rf"(?:(?<=\")[^\"\\\r\n]{{4,500}}(?=\\?\")|(?<=')[^'\\\r\n]{{4,500}}(?=\\?')|{_VALUE}{{4,500}})",
        r"(authorization(?:\\?[\"'])?[ \t]{0,3}[:=][ \t]{0,3}(?:\\?[\"'])?(?:basic|bearer|token|digest)[ \t]{1,3})"
        r"[^\s\"']{4,}",
        r"(\bbearer[ \t]{1,3})(?=[^\s\"']{0,200}[\d._~+/=-])[a-z0-9._~+/=-]{8,}",
        r"(\bcookie(?:\\?[\"'])?[ \t]{0,3}:[ \t]{0,3})[^\r\n]{8,500}",
        r"(\bwandb[a-z_ .:-]{0,20}[=: ][ \t]?[\"']?)[0-9a-f]{40}\b",
        r"(\b(?:docker|podman|helm registry) login [^\n]{0,100}?-p[ =])\S{4,200}",
        r"(\b(?:mysql(?:dump|admin|import|sh)?|mariadb(?:-dump)?)[ \t](?:[^\n]{0,100}?[ \t])?-p)[^\s-]\S{3,200}",
        r"(\bcurl [^\n]{0,80}?-u[ =]?[\"']?[^\s:\"']{1,60}:)[^\s\"']{4,200}",
        r"([?&](?:sig|x-goog-signature|x-amz-signature|access_token|key)=)[^\s&\"']{8,}",
        r"(://[^\s/:@]{0,100}:)[^\s/@]{1,500}(?=@)",
        r"(://)[^\s/:@]{16,200}(?=@)",
    )
)
AFTER = rf"(?=[a-z_?&:-])(?:{_AFTER})"  # after words that announce a secret; keep the matching group


def is_confidential(name: str, value: object = None) -> bool:
    """Whether the variable's name suggests a secret, so that its value is neither shown nor stored."""
    words = [word.upper() for word in _WORD.findall(name)]
    if _NOT_SECRET.intersection(words) or not any(word in _SECRET_NAMES or word.endswith(_ENDS) for word in words):
        return False
    return not (isinstance(value, str) and _HARMLESS.fullmatch(value))


def looks_confidential(text: str) -> bool:
    """Whether a text contains a token, a key, or words that announce one."""
    return redact(text) != text


def redact(text: str) -> str:
    """The text with recognisable secrets redacted, for this program's own messages; logs use `Redactor`."""
    clean = redact_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        return clean.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:  # what is taken for a secret ended within a character
        return clean.decode("utf-8", "replace")


def redact_tree(value: Any, name: str = "") -> Any:
    """Such JSON without the secrets in its texts, keys and options; `name` is what the value is called."""
    if isinstance(value, str):
        return REDACTED if is_confidential(name, value) else redact(value)
    if isinstance(value, list | tuple):
        options = ["", *(each.lstrip("-") if isinstance(each, str) and each[:1] == "-" else "" for each in value)]
        return [redact_tree(each, option or name) for option, each in zip(options, value, strict=False)]
    if not isinstance(value, Mapping):
        return value
    clean: dict[Any, Any] = {}
    for key, each in value.items():
        shown = redact(key) if isinstance(key, str) else key
        while shown in clean:
            shown += "…"  # no entry is lost
        clean[shown] = redact_tree(each, str(value.get("name", "") if key == "value" else key))
    return clean


REDACTED_BYTES = REDACTED.encode()
_NAMES = (b"password", b"passwd", b"passphrase", b"pgpass", b"secret", b"token", b"key", b"_id", b"-id",
          b"credential", b"credentials", b"pwd")  # fmt: skip
_SHAPED = (  # how each of the shapes begins
    b"hf_", b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_", b"github_pat", b"glpat-", b"akia", b"asia", b"aiza", b"xox",
    b"hooks.slack", b"ya29.", b"ms-", b"gocspx-", b"eyj", b"sk-", b"nvapi-", b"pypi-", b"npm_", b"dckr_pat_",
    b"age-secret",
)  # fmt: skip
_ANNOUNCING = (  # what stands in everything that announces a secret
    b"bearer ", b"bearer\t", b"basic ", b"authorization", b"cookie", b"wandb", b" login ", b"curl ", b"signature=",
    b"mysql", b"mariadb", b"sig=", b"_pass ", b"pass =", b"pass :", b"pass .",
    *(b"pass" + bytes([sign]) for sign in b"=:\"'\\\t]"),
    *(name + bytes([sign]) for name in _NAMES for sign in b"=: \t\"'\\],"),
)  # fmt: skip
_WORDS = WordSearch(
    *_SHAPED, *_ANNOUNCING, b"@", fold=True
)  # a text without any of these has no secret that is known here
_FIND_SHAPED, _FIND_ANNOUNCING = WordSearch(*_SHAPED, fold=True), WordSearch(*_ANNOUNCING, b"://", fold=True)
_BEFORE, _BEHIND = 80, 800  # bytes around such a word in which what it announces begins and ends
_BEGIN = lazy_pattern(rb"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----")
_END = lazy_pattern(rb"-----END [A-Z ]{0,40}PRIVATE KEY-----")
_KEY = lazy_pattern(_BEGIN.pattern + rb"(?:(?!-----END)[\s\S]){0,20000}(?:" + _END.pattern + rb")?", re.ASCII)
_KEY_LINES = 200  # the longest key has fewer lines than this; whatever has more was no key
_ESCAPE = lazy_pattern(rb"\x1b(?:\[[0-9;?]{0,20}[ -/]{0,4}[@-~]|[@-Z\\-_])")


class Redactor:
    """Redacts secrets in the lines of one stream, also a private key that spans lines."""

    def __init__(self) -> None:
        self._left = 0  # lines that may still belong to a key

    def redact_lines(self, lines: list[bytes]) -> list[bytes]:
        """The lines with secrets redacted, as many as were given; the first word (a timestamp) is kept."""
        block = b"\n".join(lines)
        if self._left or b"PRIVATE KEY" in block:
            return [self._redact_next_line(line) for line in lines]
        suspects, coloured = _WORDS.find_lines(block), b"\x1b" in block
        if not suspects and not coloured:
            return lines
        clean, at = [], 0
        for line in lines:
            clean.append(redact_line(line) if at in suspects or (coloured and b"\x1b" in line) else line)
            at += len(line) + 1
        return clean

    def _redact_next_line(self, line: bytes) -> bytes:
        head, space, text = line.partition(b" ")
        if self._left:
            self._left -= 1
            end = _END.search(text)
            if end is None:
                return head + space + REDACTED_BYTES
            self._left = 0
            return head + space + REDACTED_BYTES + redact_bytes(text[end.end() :])
        begin = _BEGIN.search(text)
        if begin is not None and _END.search(text, begin.end()) is None:
            self._left = _KEY_LINES
        return redact_line(line)


LOOKED_THROUGH, CUT = 1 << 15, 1 << 10  # bytes of a line that are searched for secrets, and those at their end


def redact_line(line: bytes) -> bytes:
    """The line with secrets redacted; the part of it that is too long to be searched is cut off."""
    if len(line) <= LOOKED_THROUGH:
        return redact_bytes(line)
    more = len(line) - LOOKED_THROUGH + CUT
    return redact_bytes(line[:LOOKED_THROUGH])[:-CUT] + f" … ({more} bytes more, which may hold a secret)".encode()


def redact_bytes(text: bytes) -> bytes:
    """The text with recognisable secrets redacted; colour codes are removed where they split a secret."""
    plain = _ESCAPE.sub(b"", text) if b"\x1b" in text else text
    clean = _redact_plain(plain)
    return clean if clean != plain else text


def _redact_plain(text: bytes) -> bytes:
    shape, announced = _patterns()
    clean, at = bytearray(), 0
    for word in _FIND_SHAPED.find_words(text := _KEY.sub(REDACTED_BYTES, text) if b"PRIVATE KEY" in text else text):
        if word >= at and (found := shape.match(text, word)):
            clean += text[at:word] + REDACTED_BYTES
            at = found.end()
    text, clean, at = bytes(clean) + text[at:], bytearray(), 0
    for begin, end in _find_surroundings(text):
        while found := announced.search(text, max(at, begin), end):
            if found.end() == end:  # what has no bound goes on
                found = announced.match(text, found.start()) or found
            clean += text[at : found.start()] + next(each for each in found.groups() if each is not None)
            clean += REDACTED_BYTES
            at = begin = found.end()
    return bytes(clean) + text[at:]


def _find_surroundings(text: bytes) -> list[tuple[int, int]]:
    """The parts of a text around its words in which announced secrets begin and end, in order and apart."""
    parts: list[tuple[int, int]] = []
    for word in _FIND_ANNOUNCING.find_words(text):
        begin, end = max(0, word - _BEFORE), word + _BEHIND
        if parts and parts[-1][1] >= begin:
            begin = parts.pop()[0]
        parts.append((begin, end))
    return parts


@cache
def _patterns() -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """The compiled patterns; compiled on first use, since that takes milliseconds that few commands need."""
    return re.compile(SHAPES.encode(), re.ASCII), re.compile(AFTER.encode(), re.IGNORECASE | re.ASCII)
