"""Control sequences that a hostile pod, object or file may hold; a new kind is a row."""

import re

PAYLOADS = {
    "a colour": "\x1b[31m",
    "the cursor moved": "\x1b[10;10H",
    "the screen cleared": "\x1b[2J\x1b[H",
    "the title set": "\x1b]0;PWNT\x07",
    "the title set, ended by ST": "\x1b]2;PWNT\x1b\\",
    "the clipboard written": "\x1b]52;c;UFdO\x07",
    "a link": "\x1b]8;;http://evil.example\x1b\\here\x1b]8;;\x1b\\",
    "a notification": "\x1b]9;PWNT\x07",
    "another notification": "\x1b]777;notify;PWNT;x\x07",
    "a palette": "\x1b]4;1;rgb:00/00/00\x07",
    "an answer demanded": "\x1b[c\x1b[6n\x1b[>q",
    "the answerback": "\x05",
    "a device's string": "\x1bPq#0;2;0;0;0#0~~@@\x1b\\",
    "a program's command": "\x1b_Gf=100;PWNT\x1b\\",
    "a private message": "\x1b^PWNT\x1b\\",
    "the other screen": "\x1b[?1049l\x1b[?47h",
    "the mouse reported": "\x1b[?1003h",
    "pasting in brackets ended": "\x1b[201~rm -rf ~\r",
    "a reset": "\x1bc",
    "8-bit CSI": "\x9b31m",
    "8-bit OSC": "\x9d0;PWNT\x9c",
    "8-bit DCS": "\x90q\x9c",
    "a carriage return over the line": "real\rfake",
    "backspaces": "real\x08\x08\x08\x08fake",
    "bell, shift out, form feed, vertical tab": "\x07\x0e\x0c\x0b",
    "letters turned round": "\u202egnp.exe\u202c\u2066x\u2069",
    "marks without width": "a\u200b\u200c\u200d\u2060\ufeffb",
    "line ends of Unicode": "a\u2028b\u2029c\x85d",
    "accents piled up": "e" + "\u0301" * 500,
    "emoji joined": "\u200d\u200d🙂\U0001f468\u200d\U0001f469\u200d\U0001f467❤\ufe0f",
    "half a pair": "a\ud800b".encode("utf-8", "replace").decode(),
    "tags and private letters": "\U000e0041\ue000\U0010ffff",
    "markup": "[bold red]x[/] [@click=app.quit]y[/] [/nothing",
}
RAW = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
"""What no terminal may get out of a text, but for line ends."""
