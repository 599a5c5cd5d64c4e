"""Secrets in logs and values: every form is redacted, what is no secret stays, and no text makes it slow.

A new form is a row of `FORMS`, with the part that has to go between « and ».
"""

import time
from collections.abc import Callable

import pytest

from console.launch.install import ChartCatalog
from console.launch.plan_as_text import PlanTexts
from console.launch.values_schema import without_secrets
from tests.chart.plans import offline
from trainlog import REDACTED, Redactor, is_confidential, looks_confidential, redact_bytes, redact_text, redact_tree

HEX = "0123456789abcdef0123456789abcdef01234567"
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhYmMifQ.c2lnbmF0dXJl"
FORMS = r"""
token «hf_AbCdEfGhIjKlMnOpQr»
«ghp_0123456789abcdefghij»
«gho_0123456789abcdefghij»
cloning with «github_pat_11ABCDEFG0abcdefghij_klmnopqrst»
«glpat-abcdefghij0123456789»
AWS «AKIAIOSFODNN7EXAMPLE» used
«ASIAIOSFODNN7EXAMPLE»
«AIzaSyA-0123456789abcdefghijklmnopqrstu»
«xoxb-0123456789-abcdef»
https://«hooks.slack.com/services/T000/B000/XXXXXXXX»
«ya29.a0AfH6SMBx-long_token»
«GOCSPX-abcdefghijklmnop12»
«JWT»
«sk-proj-abcdefghijklmnopqrst»
«sk-ant-api03-abcdefghijklmnop»
«nvapi-abcdefghijklmnop»
«pypi-AgEIcHlwaS5vcmcCJDExMQ»
«npm_abcdefghijklmnop0123»
«dckr_pat_abcdefghijklmnop»
«AGE-SECRET-KEY-1QQQQQQQQQQQQQQQQ»
export WANDB_API_KEY=«0123456789abcdef»
aws_secret_access_key = «wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY»
AWS_SESSION_TOKEN=«FwoGZXIvYXdzEXAMPLE»
"SecretAccessKey": "«wJalrXUtnFEMI/K7MDENG»"
"SessionToken":"«IQoJb3JpZ2lu»"
{"access_token":"«abcdefgh12345»","expires_in":3599}
"refresh_token": "«1//0gabcdefgh»"
{'HF_TOKEN': '«my-secret-value»'}
password=«hunter22»
Password: «hunter22»
db_password => «hunter22»
PGPASSWORD=«hunter22» psql
passphrase: «sesame12»
--password «hunter22»
--token «abcdef123»
--api-key=«abcdef123»
api_key: «abcdef123»
x-api-key: «abcdef123»
AccountKey=«Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq»
client_secret=«abcd1234»
Authorization: Bearer «abc.def-ghi_123»
authorization: Basic «dXNlcjpwYXNzd29yZA»
Authorization: token «abcdefgh»
'Authorization': 'Basic «YWJjZGVm»'
using bearer «abc.def-ghi_123»
Cookie: «session=abcdefgh; other=1»
wandb login «HEX»
WANDB=«HEX»
wandb: api key «HEX»
docker login -u me -p «hunter22» host
curl -s -u me:«hunter22» https://host
https://host/o?X-Goog-Signature=«abcdef0123456789»&x=1
https://a.blob.core/?sv=1&sig=«abcdefgh%2B12345678»
git clone https://me:«pa55word»@host/x
redis://:«pa55word»@host:6379
postgres://u:«PLANTdburl»@h/x
https://«ghx0123456789abcdefghij»@github.com/a/b
https://__token__:«abcdef12»@index/simple
license_key='«ABCD-EFGH-IJKL»'
\"token\": \"«abcdef123456»\"
os.environ['HF_TOKEN'] = '«my-secret-value»'
MYSQL_PWD=«hunter22»
DB_PASS=«hunter22»
secretKey=«abcdef123456»
credentials: «abcdef123456»
private_key_id: «0123456789abcdef0123»
jwt=«JWT»
WANDB_API_KEY «abc123def456»
DB_PASS «hunter2222»
  HF_TOKEN   "«abcd-1234-efgh»"
db_pass: «hunter22»
"smtp_pass": "«hunter22»"
pwd=«hunter22»
mysql_pwd: «hunter22»
downloading with «ms-0a1b2c3d-0123-4567-89ab-0123456789ab»
password="«two words»"
passphrase: '«correct horse battery staple»', user: x
{\"password\": \"«two words»\"}
DB_PASS="«a, b; c & d»"
--password "«two words»" --user x
--api-key '«abcdef123»'
  wandb_api_key ................................... «0123456789abcdef»
{"name": "WANDB_API_KEY", "value": "«abcdef123456»"}
EnvVar{Name:HF_HUB_TOKEN,Value:«abcdef123456»,ValueFrom:nil,}
""".strip().splitlines()
"""HEX and JWT stand for the two above."""
HARMLESS = """
tokens per second: 12345
token_id: 7
iteration 3 | loss 2.1
the key is monkey
tokenizer: Qwen/Qwen3-30B
https://huggingface.co/Qwen/Qwen3
NCCL_IB_GID_INDEX=3
basic training
eos_token='<|im_end|>'
pad_token: <|endoftext|>
max_token=4096
tokens/s: 1234.5
num_key_value_heads: 8
key: value
ssh://git@github.com/a/b
https://anna@host/x
secret: null
token: true
password: $DB_PASSWORD
--token-ids 1 2 3
user@host: ok
throughput per token = 0.5
attn_key=0.25
loss_per_token: 1.25
hf_transfer
sk-learn
Loading token embeddings
secret=/etc/secret/x
PWD=/workspace
OLDPWD=/root
forward_pass=12ms
first_pass: done
credentials: /etc/google/key.json
Error: secret "hf-token-2" not found
couldn't find key HF_TOKEN in Secret default/hub-token-1
HF_TOKEN environment variable is not set
Set WANDB_API_KEY or run wandb login
PAD_TOKEN <|pad_0123|>
EOS_TOKEN </s0123456>
MAX_TOKEN 4096000000
SSH_PUBLIC_KEY AAAAB3NzaC1yc2E0123
pwd=~/work1234
pwd: ./results-0123
pass: forward
pass=12/100000
bypass: enabled
forward_pass: 12.5ms/step
user_passes=12345
items ms-swift-3.8.0
12ms-0123
  pad_token ....................................... <|endoftext|>
  tokenizer_model ................................. Qwen/Qwen3-30B
  vocab_token ..................................... Qwen2TokenizerFast
{"name": "NCCL_DEBUG", "value": "INFO-1234"}
token 12 of 4096
secret "x" mounted
""".strip().splitlines()


def parts(form: str) -> tuple[bytes, bytes]:
    form = form.replace("HEX", HEX).replace("JWT", JWT)
    before, _, rest = form.partition("«")
    secret, _, after = rest.partition("»")
    return f"{before}{secret}{after}".encode(), secret.encode()


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_redacted_in_a_log(form: str) -> None:
    text, secret = parts(form)
    (out,) = Redactor().redact_lines([b"2026-11-21T07:00:00Z " + text])
    assert secret not in out
    assert "‹secret›".encode() in out
    coloured = text.replace(secret, secret[:3] + b"\x1b[31m" + secret[3:] + b"\x1b[0m")
    (out,) = Redactor().redact_lines([b"2026-11-21T07:00:00Z " + coloured])
    assert secret[3:] not in out


@pytest.mark.parametrize("form", FORMS)
def test_the_same_forms_are_kept_out_of_histories(form: str) -> None:
    assert looks_confidential(parts(form)[0].decode())


async def test_a_pasted_command_gets_no_secret_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "PLANTED-1")
    monkeypatch.setenv("NOTES", "wandb login " + HEX)
    monkeypatch.setenv("BUCKET_NAME", "open")
    text = "helm install x chart --set env.A=$AWS_SECRET_ACCESS_KEY --set env.B=$NOTES --set env.C=$BUCKET_NAME"
    draft = await PlanTexts(ChartCatalog.from_chart(), offline().render).parse_pasted("own-script", text)
    assert "PLANTED" not in repr(draft)
    assert HEX not in repr(draft)
    assert "open" in repr(draft)


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact_bytes(text.encode()) == text.encode()
    assert not looks_confidential(text)


NAMES = [
    "WANDB_API_KEY",
    "HF_TOKEN",
    "hf_token",
    "accessToken",
    "SecretAccessKey",
    "SessionToken",
    "db_password",
    "PGPASSWORD",
    "MYSQL_PWD",
    "client-secret",
    "private.key",
    "apiKey",
    "credentials",
    "SENTRY_DSN",
    "Authorization",
    "WANDB_KEY",
]
OPEN = [
    "SSH_PUBLIC_KEY",
    "publicKey",
    "eos_token",
    "TOKENIZERS_PARALLELISM",
    "MAX_TOKENS",
    "KEYBOARD",
    "monkeys",
    "NCCL_DEBUG",
    "passed",
]


def test_a_tree_has_no_secret_in_values_keys_options_and_no_entry_is_lost() -> None:
    secret, hidden = "hunter22x", REDACTED
    assert redact_tree({
        f"AWS_SECRET_ACCESS_KEY={secret}": [1, 2], f"AWS_SECRET_ACCESS_KEY={secret}b": None, "api_key": (secret, 5),
        "argv": ["train", "--api-key", secret, "--steps", "5"], "env": [{"name": "HF_TOKEN", "value": secret}],
        "cmd": f"mysqldump -u root -p{secret} db; mysql -p {secret}", "deep": {"x": {3: f"https://u:{secret}@h"}},
    }) == {
        f"AWS_SECRET_ACCESS_KEY={hidden}": [1, 2], f"AWS_SECRET_ACCESS_KEY={hidden}…": None, "api_key": [hidden, 5],
        "argv": ["train", "--api-key", hidden, "--steps", "5"], "env": [{"name": "HF_TOKEN", "value": hidden}],
        "cmd": f"mysqldump -u root -p{hidden} db; mysql -p {secret}", "deep": {"x": {3: f"https://u:{hidden}@h"}},
    }  # fmt: skip


def test_values_of_a_history_have_no_secret_in_names_and_lists() -> None:
    token = "hf_" + "Ab3" * 11
    safe, left_out = without_secrets((), {
        "env": {token: "1", "A": "1"}, "volumes": [{"name": "x", "password": "hunter22x"}],
        "hosts": [{"name": "y"}, []],
    })  # fmt: skip
    assert safe == {"env": {"A": "1"}, "hosts": [{"name": "y"}, []]}
    assert left_out == (f"env.{REDACTED}", "volumes")


@pytest.mark.parametrize("name", [*NAMES, *OPEN])
def test_names_by_their_meaning(name: str) -> None:
    assert is_confidential(name, "abcdefgh") is (name in NAMES)


SEEDS = (
    "eyJaaaaaaaa-", "eyJaaaaaaaa.", "eyJ", "hf_", "hf_a-", "ghp_a", "glpat-", "AKIA", "AIza-", "xoxb-", "ya29.",
    "sk-", "pypi-", "a.b-", "Bearer ", "bearer a", "Authorization: Basic ", "authorization", "token=", "token =",
    "secret", "TOKEN_", "--token ", "-token", "password", "password: ", "://", "://a:", "://a", "@", "cookie: ",
    "cookie:", "wandb ", "wandb_", "docker login ", "curl ", "curl -u a:", "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN ", "-----END", "\u001b[", "\u001b[31", "\u001b[0;", "_key=", "sig=", "?sig=", "=", "\"token\":",
    "A_KEY ", "A0", "A_KEY a", "A_", "api_key .", "name", "name:K", "name:KEY,value:", "password=\"", "pass=", "_pass:",
    "db", "db_pass: ", "pwd=", "ms-", "ms-00000000-", "password='a b ", "--token \"",
    "access_key_id", "mysql ", "mysql -u",
    "-", "--", "-a", "a", "a-", "token", "token ", "npm_", "hooks.slack.com/services/", "nvapi-",
    "GOCSPX-", "dckr_pat_", "AGE-SECRET-KEY-1", "github_pat_", "&key=", "login ", " ", "\t", "'", "\\",
    "token:", "wandb:", "mysql\t", "mariadb -", "_PASS ", "A_KEY a1", "://a:b@", "pass:", "pwd: ", "curl x ", "curl -u",
    "mysql -h x ", "docker login -p", "token: {", "--token abcd ", "name:K_KEY,value:a ", "&key=abcdefgh ",
)  # fmt: skip


def seconds_of(work: Callable[[bytes], object], text: str, size: int) -> float:
    raw, taken = (text * (size // len(text) + 1))[:size].encode(), []
    for _ in range(2):
        began = time.process_time()
        work(raw)
        taken.append(time.process_time() - began)
    return min(taken)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_line_makes_it_slow(seed: str) -> None:
    """Twice as long a row costs twice as much; 20 lines of 32 kB a second take less than 5 % of a core."""
    row = seconds_of(lambda raw: Redactor().redact_lines([raw]), seed, 32_000)
    assert 20 * row < 0.1  # of a machine that is as slow as two
    assert seconds_of(redact_bytes, seed, 64_000) < max(3 * seconds_of(redact_bytes, seed, 32_000), 0.015)


def test_what_stands_far_from_the_word_of_a_secret_costs_nothing() -> None:
    lines = [b"2026-11-21T07:00:00Z " + b"-" * 32_000 + b" token "] * 20
    redact_text("token=abcdefgh")
    began = time.process_time()
    Redactor().redact_lines(lines)
    redact_text("-" * 1_000_000 + " token ")
    assert time.process_time() - began < 0.1
