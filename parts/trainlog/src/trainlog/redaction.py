"""Redacts secrets, recognised by a variable's name or by their form, in logs, forms, histories and profiles.

A block is first searched for the words below, at less than 1 ns a byte; only lines with such a word, and in these only
the text around it, are searched further, at up to 0.1 µs a byte: every alternative of a pattern begins with a letter in
its own case. Every pattern takes time in proportion to the text: repeats are bounded and possessive (of groups atomic:
Python before 3.11.5 repeats groups wrongly), or begin where the characters before cannot belong to them. Not
recognised: passwords without a name before them or shorter than four letters; one-letter options except those of curl,
docker and mysql; `pass=…` (a name for tests and passes over data); a value without digits after a name and a blank;
hexadecimal keys without a word that announces them; anything encoded again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from trainlog.lines import WordSearch
from trainlog.regex import lazy_pattern

REDACTED = "‹secret›"  # what stands in place of a secret
_SECRET_NAMES = {"PASSPHRASE", "PASS", "PWD", "CREDENTIAL", "CREDENTIALS", "DSN", "AUTHORIZATION"}
_ENDS = ("TOKEN", "SECRET", "PASSWORD", "PASSWD", "KEY")
_HARMLESS_NAMES = {"PUBLIC", "PAD", "EOS", "BOS", "UNK", "MASK", "CLS", "SEP", "STOP", "SPECIAL", "SSHPUBLICKEY"}
_NAME_WORD = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_HARMLESS_VALUE = lazy_pattern(r"\d{0,6}|true|false|yes|no|none|null|/.*|\$.*|<.*>|\[.*\]", re.IGNORECASE)
"""Values that are no secrets whatever their variable: switches, numbers, file paths, references, special tokens."""

_TOKEN_SHAPES = {  # how tokens begin that say what they are, and how they go on
    "hf_": r"(?:(?=[a-z]{0,40}[A-Z0-9])[A-Za-z0-9]{8,}+|[a-z]{14,}+)",
    **dict.fromkeys(("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "npm_"), r"[A-Za-z0-9]{16,}+"),
    "github_pat_": r"\w{16,}+",
    **dict.fromkeys(("glpat-", "GOCSPX-", "nvapi-", "pypi-", "dckr_pat_"), r"[\w-]{16,}+"),
    **dict.fromkeys(("AKIA", "ASIA"), r"[0-9A-Z]{12,}+"),
    "AIza": r"[\w-]{30,}+",
    **dict.fromkeys(("xoxa-", "xoxb-", "xoxe-", "xoxp-", "xoxr-", "xoxs-"), r"[\w-]{10,}+"),
    "hooks.slack.com/services/": r"[\w/]{8,}+",
    "ya29.": r"[\w.-]{10,}+",
    "eyJ": r"(?<!-eyJ)[\w-]{8,}+\.[\w-]{8,}+\.[\w-]*+",
    "sk-": r"[\w-]{20,}+",
    "AGE-SECRET-KEY-1": r"[0-9A-Z]{16,}+",
    "ms-": r"(?<!-ms-)[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}",
}
TOKEN_PATTERN = "|".join(rf"{re.escape(begin)}(?<!\w{re.escape(begin)}){rest}" for begin, rest in _TOKEN_SHAPES.items())
"""Tokens recognised by their prefix: Hugging Face, GitHub, GitLab, AWS, Google, Slack, OAuth, JSON web tokens, OpenAI,
Anthropic, NVIDIA, package indexes, Docker, age, ModelScope."""

_VALUE = r"[^\s\"',;&\\]"
_QUOTE = r"(?:\\?[\"'])"
_ANY_QUOTE = rf"(?>{_QUOTE}?)"
_LOGIN_WORDS = (  # what has a password that may be called `pass`, by length; a forward pass has none
    "db|pg",
    "sql|ftp|ssh|git|api|ray",
    "mail|smtp|ldap|http|user|root|auth",
    "docker",
    "mysql|mongo|redis|proxy|admin|login|minio",
    "database|postgres|registry",
)
_LOGIN = (
    r"(?=[_-]?(?:id)?[\"'\\\] \t]{0,6}+[:=])"
    + "|".join(  # where a sign follows
        f"{before}(?:" + "|".join(rf"(?<=(?<![a-z0-9])(?:{names}){sign}pass)" for names in _LOGIN_WORDS) + ")"
        for before, sign in (("(?:(?<=[_-]pass)", "[_-]"), ("(?<=[a-z]pass)", ""))
    )
    + ")"
)
_ITS_VALUE = (  # behind a name that says what it holds: a sign, then the value: in quotes, or up to a blank
    rf"(?:[_-]?[iI][dD])?{_ANY_QUOTE}\]?+[ \t]{{0,3}}+(?::|=>|=)[ \t]{{0,3}}+[bB]?{_ANY_QUOTE}()"
    r"(?![/$<\[{]|[\d.,%]{1,12}(?![\w/+=-])|(?i:true|false|none|null)\b)"
    r"(?:(?<=\")[^\s\"\\][^\"\\\r\n]{3,500}+(?=\\?\")|(?<=')[^\s'\\][^'\\\r\n]{3,500}+(?=\\?')"
    rf"|{_VALUE}{{4,500}}+)"
)
_MIXED = (  # no word, number or path
    rf"()(?![/$<\[{{.~])(?=[^\s\d]{{0,100}}+\d)(?=[^\sa-zA-Z]{{0,100}}+[a-zA-Z]){_VALUE}{{8,500}}+"
)
_MEGATRON_ARGUMENT = r"[ \t]\.{2,60}+[ \t]" + _MIXED  # a line of Megatron's table of arguments
_COMMAND_OPTION = (  # of a command
    rf"[ \t]{{1,3}}{_QUOTE}?()(?!-)(?:(?<=\")[^\"\\\r\n]{{4,500}}+(?=\\?\")"
    rf"|(?<=')[^'\\\r\n]{{4,500}}+(?=\\?')|{_VALUE}{{4,500}}+)"
)
_LISTED_VALUE = (
    rf"{_QUOTE}?,[ \t]{{0,3}}{_QUOTE}?(?i:value){_QUOTE}?[:=][ \t]{{0,3}}{_QUOTE}?(){_VALUE}{{4,500}}+"  # of a pod
)


def _after_words(command: str, option: str, value: str) -> str:
    """A pattern for the value of a command's option after other words, in the same command."""
    found = rf"[\"']?{option}"
    return rf"(?>(?:[ \t]++(?!{found}{value}|\S*?{command}[ \t])\S++){{0,40}})[ \t]++{found}(){value}"


ANNOUNCED_SECRET = "|".join(  # after words that announce it, in lower case; an empty group stands where each begins
    (
        rf"p(?:assw(?:or)?d|assphrase|gpass|rivate[_-]?key|wd(?![:= \t]{{1,4}}[.~])|ass(?:{_LOGIN})){_ITS_VALUE}",
        rf"s(?:ecret(?:[_-]?key)?|ubscription[_-]?key){_ITS_VALUE}",
        rf"token(?<!(?:eos|pad|bos|unk|cls|sep)_token)(?<!(?:mask|stop)_token){_ITS_VALUE}",
        rf"a(?:pi|ccess|ccount|uth)[_-]?key{_ITS_VALUE}",
        rf"license[_-]?key{_ITS_VALUE}",
        rf"credentials?{_ITS_VALUE}",
        rf"password{_MEGATRON_ARGUMENT}",
        rf"secret{_MEGATRON_ARGUMENT}",
        rf"token(?:(?<=hf_token)|(?<=hub_token)|(?<=auth_token)|(?<=access_token)){_MEGATRON_ARGUMENT}",
        rf"key(?:(?<=api_key)|(?<=wandb_key)|(?<=access_key)|(?<=secret_key)){_MEGATRON_ARGUMENT}",
        rf"-(?:[a-z]{{0,30}}?(?:password|passwd|token|secret|api-?key|access-?key)){_COMMAND_OPTION}",
        rf"authorization{_QUOTE}?[ \t]{{0,3}}[:=][ \t]{{0,3}}{_QUOTE}?(?:basic|bearer|token|digest)[ \t]{{1,3}}()"
        r"[^\s\"']{4,}+",
        r"bearer(?<!\wbearer)[ \t]{1,3}()(?=[^\s\"'\d._~+/=-]{0,200}+[\d._~+/=-])[a-z0-9._~+/=-]{8,}+",
        rf"cookie(?<!\wcookie){_QUOTE}?[ \t]{{0,3}}:[ \t]{{0,3}}()[^\r\n]{{8,500}}+",
        r"wandb(?<!\wwandb)[a-z_.-]{0,20}+(?>(?:[ \t:=]++(?!wandb|[0-9a-f]{40}\b)[a-z_.-]{1,20}+){0,5})[ \t:=]++"
        r"[\"']?()[0-9a-f]{40}\b",
        r"\?(?:sig|x-goog-signature|x-amz-signature|access_token|key)=()[^\s&\"']{8,}+",
        r"&(?:sig|x-goog-signature|x-amz-signature|access_token|key)=()[^\s&\"']{8,}+",
        r"://(?:[^\s/:@]{0,100}+:()[^\s/@]{1,500}+(?=@)|()[^\s/:@]{16,200}+(?=@))",
    )
)
_ENDINGS = ("KEY", "TOKEN", "SECRET", "PASS(?:WORD|WD)?", "PWD", "CREDENTIALS?")
_NO_SECRET = "".join(
    rf"(?<!(?<![A-Z])(?:{names})_)" for names in ("PAD|EOS|BOS|UNK|CLS|SEP", "MASK|STOP", "PUBLIC", "SPECIAL")
)
ANNOUNCED_SECRET_IN_CAPITALS = "|".join(  # the same, in capitals
    (
        rf"_PASS{_ITS_VALUE}",
        rf"_(?:(?<=[ABE-JM-OQRT-Z0-9]_)|(?<=[CDKLPS]_){_NO_SECRET})(?:{'|'.join(_ENDINGS)})[ \t]++{_ANY_QUOTE}{_MIXED}",
        *(ending + _LISTED_VALUE for ending in _ENDINGS),
    )
)
COMMANDS = "|".join(  # options of commands, in lower case
    (
        r"login(?:(?<=(?:docker|podman) login)|(?<=helm registry login))"
        + _after_words("login", "-p[ =]", r"\S{4,200}+"),
        r"m(?<!\wm)(?:ysql(?:dump|admin|import|sh)?|ariadb(?:-dump)?)"
        + _after_words("(?:mysql|mariadb)[a-z-]{0,6}", "-p", r"[^\s-]\S{3,200}+"),
        r"curl(?<!\wcurl)" + _after_words("curl", r"-u[ =]?[\"']?[^\s:\"']{1,60}+:", r"[^\s\"']{4,200}+"),
    )
)


def is_confidential(name: str, value: object = None) -> bool:
    """Whether a variable's name suggests a secret; False for a harmless `value` (number, true, path); None: unknown."""
    words = [word.upper() for word in _NAME_WORD.findall(name)]
    if _HARMLESS_NAMES.intersection(words) or not any(word in _SECRET_NAMES or word.endswith(_ENDS) for word in words):
        return False
    return not (isinstance(value, str) and _HARMLESS_VALUE.fullmatch(value))


def looks_confidential(text: str) -> bool:
    """Whether a text contains a token, a key, or words that announce one."""
    return redact_text(text) != text


def redact_text(text: str) -> str:
    """The text with recognisable secrets redacted, for messages of this program; for logs see `Redactor`."""
    clean = redact_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        return clean.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:  # what is taken for a secret ended within a character
        return clean.decode("utf-8", "replace")


def redact_tree(value: Any, name: str = "") -> Any:
    """A JSON value without the secrets in its texts, keys and options."""
    if isinstance(value, str):
        return REDACTED if is_confidential(name, value) else redact_text(value)
    if isinstance(value, list | tuple):
        options = ["", *(each.lstrip("-") if isinstance(each, str) and each[:1] == "-" else "" for each in value)]
        return [redact_tree(each, option or name) for option, each in zip(options, value, strict=False)]
    if not isinstance(value, Mapping):
        return value
    clean: dict[Any, Any] = {}
    for key, each in value.items():
        shown = redact_text(key) if isinstance(key, str) else key
        while shown in clean:
            shown += "…"  # no entry is lost
        clean[shown] = redact_tree(each, str(value.get("name", "") if key == "value" else key))
    return clean


REDACTED_BYTES = REDACTED.encode()
_SECRET_WORDS = (b"password", b"passwd", b"passphrase", b"pgpass", b"secret", b"token", b"key", b"_id", b"-id",
          b"credential", b"credentials", b"pwd")  # fmt: skip
_TOKEN_HEADS = tuple(begin.encode() for begin in _TOKEN_SHAPES)
_COMMANDS = (b" login ", b"curl ", b"mysql", b"mariadb")
_ANNOUNCERS = (  # what stands in everything that announces a secret
    b"bearer ",
    b"bearer\t",
    b"basic ",
    b"authorization",
    b"cookie",
    b"wandb",
    b"signature=",
    b"sig=",
    b"_pass ",
    b"pass =",
    b"pass :",
    b"pass .",
    *(b"pass" + bytes([sign]) for sign in b"=:\"'\\\t]"),
    *(name + bytes([sign]) for name in _SECRET_WORDS for sign in b"=: \t\"'\\],"),
)
_PRIVATE_KEY = b"PRIVATE KEY"
_ANY_SEARCH = WordSearch(
    *(each.lower() for each in _TOKEN_HEADS), *_ANNOUNCERS, *_COMMANDS, _PRIVATE_KEY.lower(), b"@", fold=True
)
"""Words of which every text with a recognisable secret has at least one."""
_TOKEN_SEARCH, _COMMAND_SEARCH = WordSearch(*_TOKEN_HEADS), WordSearch(*_COMMANDS, fold=True)
_ANNOUNCING_SEARCH = WordSearch(*_ANNOUNCERS, b"://", fold=True)
_BYTES_BEFORE_WORD, _BYTES_BEHIND_WORD = 80, 800  # bytes around such a word in which what it announces begins and ends
_KEY_BEGIN = lazy_pattern(rb"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----")
_KEY_END = lazy_pattern(rb"-----END [A-Z ]{0,40}PRIVATE KEY-----")
_KEY = lazy_pattern(_KEY_BEGIN.pattern + rb"(?:(?!-----END)[\s\S]){0,20000}(?:" + _KEY_END.pattern + rb")?", re.ASCII)
_MAX_KEY_LINES = 200  # the longest key has fewer lines than this; whatever has more was no key
_ESCAPE_CODE = lazy_pattern(rb"\x1b(?:\[[0-9;?]{0,20}[ -/]{0,4}[@-~]|[@-Z\\-_])")


class Redactor:
    """Redacts secrets in the lines of one stream, also a private key that spans lines."""

    def __init__(self) -> None:
        self._left = 0  # lines that may still belong to a key

    def redact_lines(self, lines: list[bytes]) -> list[bytes]:
        """The lines with secrets redacted, as many as were given; the first word (a timestamp) is kept."""
        block = b"\n".join(lines)
        suspects, coloured = _ANY_SEARCH.find_lines(block), b"\x1b" in block
        if self._left or (suspects and _PRIVATE_KEY in block):
            return [self._redact_next_line(line) for line in lines]
        if not suspects and not coloured:
            return lines
        clean, at = [], 0
        for line in lines:
            clean.append(redact_line(line) if at in suspects or (coloured and b"\x1b" in line) else line)
            at += len(line) + 1
        return clean

    def redact_text(self, block: bytes) -> bytes:
        """A block of whole lines without timestamps, with secrets redacted."""
        suspects = _ANY_SEARCH.find_lines(block)
        if self._left or b"\x1b" in block or (suspects and _PRIVATE_KEY in block):
            *lines, _ = block.split(b"\n")
            return b"".join([line[1:] + b"\n" for line in self.redact_lines([b" " + line for line in lines])])
        clean, at = list[bytes](), 0
        for start, end in sorted(suspects.items()):
            clean += block[at:start], redact_line(block[start:end])
            at = end
        return b"".join([*clean, block[at:]])

    def _redact_next_line(self, line: bytes) -> bytes:
        head, space, text = line.partition(b" ")
        if self._left:
            self._left -= 1
            end = _KEY_END.search(text)
            if end is None:
                return head + space + REDACTED_BYTES
            self._left = 0
            return head + space + REDACTED_BYTES + redact_bytes(text[end.end() :])
        begin = _KEY_BEGIN.search(text)
        if begin is not None and _KEY_END.search(text, begin.end()) is None:
            self._left = _MAX_KEY_LINES
        return redact_line(line)


MAX_SEARCHED_BYTES, CUT_BYTES = 1 << 15, 1 << 10  # of a line that are searched for secrets, and those at their end
MAX_SECRET_WORDS = 1000  # that announce a secret, up to which a line is searched: each costs up to two microseconds


def redact_line(line: bytes) -> bytes:
    """The line with secrets redacted; a line too long to search is cut."""
    looked = _ANNOUNCING_SEARCH.find_word(line[:MAX_SEARCHED_BYTES], MAX_SECRET_WORDS)
    if looked == len(line):
        return redact_bytes(line)
    more = len(line) - looked + CUT_BYTES
    return redact_bytes(line[:looked])[:-CUT_BYTES] + f" … ({more} bytes more, which may hold a secret)".encode()


def redact_bytes(text: bytes) -> bytes:
    """The text with recognisable secrets redacted; colour codes are removed where they split a secret."""
    plain = _ESCAPE_CODE.sub(b"", text) if b"\x1b" in text else text
    clean = _redact_plain(plain)
    return clean if clean != plain else text


def _redact_plain(text: bytes) -> bytes:
    text = _KEY.sub(REDACTED_BYTES, text) if _PRIVATE_KEY in text else text
    for search, pattern, lower in _secret_patterns():
        if spans := search.find_spans(text, _BYTES_BEFORE_WORD, _BYTES_BEHIND_WORD):
            text = _redact_spans(text, spans, pattern, text.lower() if lower else text)
    return text


def _redact_spans(text: bytes, spans: list[tuple[int, int]], pattern: re.Pattern[bytes], searched: bytes) -> bytes:
    """The text with the secrets redacted that the pattern finds within the spans."""
    parts, at = [], 0
    for begin, end in spans:
        for found in pattern.finditer(searched, max(at, begin), end):
            if found.end() == end:  # what has no bound goes on
                found = pattern.match(searched, found.start()) or found
            parts.append(text[at : found.start(found.lastindex or 0)])
            at = found.end()
    return REDACTED_BYTES.join([*parts, text[at:]])


@cache
def _secret_patterns() -> tuple[tuple[WordSearch, re.Pattern[bytes], bool], ...]:
    """The patterns of secrets, each with the words near which it is searched, and whether in lower case.

    Compiled on first use, since that takes milliseconds that few commands need.
    """
    return (
        (_TOKEN_SEARCH, re.compile(TOKEN_PATTERN.encode()), False),
        (_ANNOUNCING_SEARCH, re.compile(ANNOUNCED_SECRET.encode()), True),
        (_ANNOUNCING_SEARCH, re.compile(ANNOUNCED_SECRET_IN_CAPITALS.encode()), False),
        (_COMMAND_SEARCH, re.compile(COMMANDS.encode()), True),
    )
