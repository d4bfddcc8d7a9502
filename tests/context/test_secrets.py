"""Redaction: what is planted goes, what is code stays. No secret stands here: each is put together when the tests run."""

from __future__ import annotations

import base64
import json
import random
import re
import string

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from context.secret_formats import FORMATS
from context.secret_values import Weight, weight_of
from context.secrets import LONG, SHORT, find_secrets, redact

_CHANCE = random.Random(20)
_ALNUM = string.ascii_letters + string.digits
_HEX = "0123456789abcdef"


def _any(n: int, alphabet: str = _ALNUM) -> str:
    """n characters by chance, with a letter and a digit among them."""
    while True:
        value = "".join(_CHANCE.choice(alphabet) for _ in range(n))
        if any(c.isdigit() for c in value) and any(c.isalpha() for c in value):
            return value


def _pem(kind: str, n_lines: int = 4) -> tuple[str, list[str]]:
    lines = [_any(64, _ALNUM + "+/") for _ in range(n_lines)] + [_any(21) + "=="]
    mark = "-" * 5
    return f"{mark}BEGIN {kind}{mark}\n" + "\n".join(lines) + f"\n{mark}END {kind}{mark}\n", lines


PASSWORD = "hun" + "ter2"
PLANTED = {  # a token of each vendor, in pieces
    "aws": "AKI" + "A" + _any(16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"),
    "github": "gh" + "p_" + _any(36),
    "github fine-grained": "github" + "_pat_" + _any(22) + "_" + _any(59),
    "gitlab": "gl" + "pat-" + _any(20),
    "slack bot": "xo" + "xb-" + _any(12, string.digits + "a") + "-" + _any(24),
    "slack app": "xa" + "pp-1-A" + _any(10, string.ascii_uppercase + string.digits) + "-" + "4096" * 3 + "-" + _any(64, _HEX),
    "stripe": "sk" + "_live_" + _any(24),
    "stripe restricted": "rk" + "_test_" + _any(24),
    "google": "AI" + "za" + _any(35),
    "google client": "GOC" + "SPX-" + _any(28),
    "npm": "np" + "m_" + _any(36),
    "pypi": "py" + "pi-AgE" + _any(80),
    "openai": "s" + "k-proj-" + _any(60),
    "anthropic": "s" + "k-ant-api03-" + _any(90),
    "sendgrid": "S" + "G." + _any(22) + "." + _any(43),
    "twilio": "S" + "K" + _any(32, _HEX),
    "mailchimp": _any(32, _HEX) + "-u" + "s12",
    "azure client": _any(3) + "8" + "Q~" + _any(34),
    "digitalocean": "do" + "p_v1_" + _any(64, _HEX),
    "databricks": "da" + "pi" + _any(32, _HEX),
    "vault": "hv" + "s." + _any(90),
    "terraform": _any(14) + ".atlas" + "v1." + _any(67),
    "telegram": "AA" + _any(33),
    "docker": "dckr" + "_pat_" + _any(27),
    "age": "AGE-SECRET" + "-KEY-1" + _any(58, "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"),
    "jwt": "ey" + "J" + _any(30) + ".ey" + "J" + _any(60) + "." + _any(43),
    "bcrypt": "$2" + "b$12$" + _any(53),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_token_is_found_wherever_it_stands(name: str) -> None:
    token, before = PLANTED[name], "123456789:" if name == "telegram" else ""
    for form in ("{}", "x = f('{}')", "say({}, 1)", '"see\\n{}"', "# {}\n", "https://a.example/?q={}&b=1"):
        text = form.replace("{}", before + token)
        assert token not in redact(text), text
    assert redact(f"f('{before}{token}')") == f"f('{before}{LONG}')"


def _files() -> dict[str, tuple[str, list[str]]]:
    """Files as they lie beside the one being typed in or in .gitignore: the text, and what must not leave it."""
    pw, key, hexed, b64 = "S3cure!" + "pass", _any(32), _any(40, _HEX), base64.b64encode(_any(30).encode()).decode()
    aws = "wJalr/" + _any(12) + "/K7MDENG/" + _any(13)
    rsa, rsa_lines = _pem("RSA PRIVATE KEY")
    pgp, pgp_lines = _pem("PGP PRIVATE KEY BLOCK")
    user = base64.b64encode(f"bob:{PASSWORD}".encode()).decode()
    short, account = "Tr0ub4" + "dor", _any(86, _ALNUM + "+/")
    return {
        ".env": (
            f"DEBUG=1\nDB_PASSWORD={PASSWORD}\nexport API_TOKEN={key}\nSECRET_KEY='{pw}x1'\nURL=postgres://bob:{short}@db/x\n",
            [PASSWORD, key, pw, short],
        ),
        "settings.py": (
            f'DB = {{"user": "bob", "password": "{PASSWORD}"}}\nAPI_KEY: str = "{key}"\n'
            f'SECRET_KEY = (\n    "{key[:16]}"\n    "{key[16:]}"\n)\n',
            [PASSWORD, key, key[:16], key[16:]],
        ),
        "config.yaml": (
            f"db:\n  user: bob\n  password: {PASSWORD}\n  host: db\napi:\n  token: {hexed}\n"
            f"  note: |\n    hi\n  secret: >-\n    {key}\n",
            [PASSWORD, hexed, key],
        ),
        "app.properties": (f"spring.datasource.username=sa\nspring.datasource.password={pw}\njwt.secret={key}\n", [pw, key]),
        "credentials": (
            f"[default]\naws_access_key_id = {PLANTED['aws']}\naws_secret_access_key = {aws}\n",
            [PLANTED["aws"], aws],
        ),
        "appsettings.json": (
            json.dumps({"ConnectionStrings": {"Db": f"Server=x;User Id=sa;Password={pw};Encrypt=1"}, "ApiKey": key}, indent=1),
            [pw, key],
        ),
        "web.config": (f'<add key="ApiKey" value="{key}" />\n<password>{PASSWORD}</password>\n', [key, PASSWORD]),
        "Main.java": (
            f'  private static final String PASSWORD = "{PASSWORD}";\n  client.setPassword("{pw}");\n',
            [PASSWORD, pw],
        ),
        "main.go": (
            f'const apiKey = "{key}"\nvar token string = `{hexed}`\npassword := "{PASSWORD}"\n',
            [key, hexed, PASSWORD],
        ),
        "client.ts": (
            f"const secretKey: string = '{key}';\n"
            f"fetch(u, {{headers: {{Authorization: `Bearer {hexed}`, 'X-Api-Key': '{key}'}}}});\n",
            [key, hexed],
        ),
        "lib.rs": (f'const TOKEN: &str = "{key}";\nlet pw = r#"{pw}"#;\n', [key, pw]),
        "main.c": (f'static char password[32] = "{PASSWORD}";\n', [PASSWORD]),
        "conf.php": (f"define('DB_PASSWORD', '{pw}');\n$cfg = ['password' => '{PASSWORD}'];\n", [pw, PASSWORD]),
        "deploy.sh": (
            f"curl -u bob:{PASSWORD} -H 'X-Api-Key: {key}' https://x.example\nmysql --user=a --password={pw}\n",
            [PASSWORD, key, pw],
        ),
        "Dockerfile": (f"FROM x\nENV DB_PASSWORD={PASSWORD}\nENV API_TOKEN {key}\nRUN echo\n", [PASSWORD, key]),
        "secret.yaml": (
            f"apiVersion: v1\nkind: Secret\ndata:\n  a: {b64}\n  b: |\n    {user}\n---\n"
            f"kind: ConfigMap\ndata:\n  plain: text here\n",
            [b64, user],
        ),
        ".netrc": (f"machine git.example.com login bob password {PASSWORD}\n", [PASSWORD]),
        ".npmrc": (f"//npm.example.com/:_authToken={key}\n//b.example/:_auth={user}\n", [key, user]),
        ".pgpass": (f"db.example.com:5432:main:bob:{PASSWORD}\n", [PASSWORD]),
        "config.json": (json.dumps({"auths": {"r.example": {"auth": user}}}), [user]),
        "dsn.py": (
            f'connect("host=db user=bob password={PASSWORD} dbname=x")\nrequests.get(u, auth=("bob", "{PASSWORD}"))\n',
            [PASSWORD],
        ),
        "init.sql": (f"CREATE USER bob IDENTIFIED BY '{PASSWORD}';\nALTER USER bob PASSWORD '{pw}';\n", [PASSWORD, pw]),
        "storage.py": (
            f'C = "DefaultEndpointsProtocol=https;AccountName=x;AccountKey={account}==;EndpointSuffix=y"\n',
            [account],
        ),
        "id_rsa": (rsa, rsa_lines),
        "key.py": ("KEY = " + repr(rsa) + "\n", rsa_lines),
        "Key.java": ("".join(f'  "{line}\\n" +\n' for line in rsa.splitlines()), rsa_lines),
        "service.json": (json.dumps({"type": "service_account", "private_key": rsa}), rsa_lines),
        "pgp.asc": (pgp.replace("BLOCK-----\n", "BLOCK-----\nVersion: X 1.0\n\n", 1), pgp_lines),
        "cut.pem": (rsa.split("\n", 2)[2], rsa_lines[2:]),
        "open.pem": (rsa[: rsa.index("-----END")], rsa_lines),
        "key.ppk": (
            f"PuTTY-User-Key-File-2: ssh-rsa\nPrivate-Lines: 2\n{rsa_lines[0]}\n{rsa_lines[1]}\nPrivate-MAC: x\n",
            rsa_lines[:2],
        ),
        "jwk.json": (json.dumps({"kty": "EC", "crv": "P-256", "x": _any(43), "d": key}), [key]),
        "notes.md": (
            f"Log in with `password: {PASSWORD}`.\n\n    $ export GITHUB_TOKEN={PLANTED['github']}\n",
            [PASSWORD, PLANTED["github"]],
        ),
        "escaped.ts": ('const body = "{\\"password\\": \\"' + PASSWORD + '\\"}";\n', [PASSWORD]),
    }


FILES = _files()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("eol", ["\n", "\r\n"])
def test_planted_secrets_do_not_leave_a_file(name: str, eol: str) -> None:
    text, planted = FILES[name]
    text = text.replace("\n", eol)
    clean = redact(text)
    assert [secret for secret in planted if secret in clean] == []
    assert clean.count("\n") == text.count("\n")
    assert [line.endswith("\r") for line in clean.split("\n")] == [line.endswith("\r") for line in text.split("\n")]
    assert re.sub(r"[^\"'`]", "", clean) == re.sub(r"[^\"'`]", "", text), "quotes stay"
    assert redact(clean) == clean


def test_what_is_around_a_secret_stays() -> None:
    text, _ = FILES["config.yaml"]
    assert redact(text) == (
        f"db:\n  user: bob\n  password: {SHORT}\n  host: db\napi:\n  token: {LONG}\n"
        f"  note: |\n    hi\n  secret: >-\n    {LONG}\n"
    )
    assert redact(FILES["secret.yaml"][0]).endswith("---\nkind: ConfigMap\ndata:\n  plain: text here\n")
    assert redact(FILES["conf.php"][0]) == f"define('DB_PASSWORD', '{LONG}');\n$cfg = ['password' => '{SHORT}'];\n"


CODE = [
    'password = "password"',
    "password = get_password(user)",
    "password: Optional[str] = None",
    'password = os.environ["DB_PASSWORD"]',
    'password = f"{prefix}-{name}"',
    'label = {"password": "Enter your password:"}',
    "DB_PASSWORD=${DB_PASSWORD}",
    "DB_PASSWORD=$(pass show db)",
    "password: <your password>",
    'api_key = "YOUR_API_KEY_GOES_1N_H3RE"',
    'token = "AKIAIOSFODNN7' + 'EXAMPLE"',
    'password_field = "hunter2_input"',
    'token_type = "bearer"',
    "token = tokens[i + 1]",
    'token: Token2 = parse("x1")',
    'self.key = key.replace("utf8", "x1")',
    'key = "sha256_digest_v2"',
    'SECRET_NAME = "projects/p1/secrets/s1"',
    'private_key_path = "/etc/ssl/server1.pem"',
    'private_key = "keys/server1.pem"',
    'public_key = "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE9"',
    "https://example.com:8080/path@2x.png",
    "git@github.com:a/b1.git",
    "postgres://{user}:{password}@{host}/db",
    "sk-fading-circle task-0123456789abcdef0123456789",
    'if "-----BEGIN PRIVATE' + ' KEY-----" in text:\n    return decode(text)\nx = "-----END PRIVATE' + ' KEY-----"',
    "See `Basic Operations for Tables`_ and the bearer of bad news.",
    "def pwd(): ...\nPWD=/home/bob/src1",
    "for --password options see below",
    '{"next_token": "eyJhIjogMX0' + '1234567890abcdefgh"}',
    'digest = "d41d8cd98f00b204e9800998ecf8427e"',
]


@pytest.mark.parametrize("text", CODE)
def test_code_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    ("name", "weight"),
    [
        ("password", Weight.PASSWORD),
        ("DB_PASSWORD", Weight.PASSWORD),
        ("userPass", Weight.PASSWORD),
        ("first_pass", Weight.NONE),
        ("passwordField", Weight.NONE),
        ("AWS_SECRET_ACCESS_KEY", Weight.SECRET),
        ("apiKey", Weight.SECRET),
        ("SECRET_KEY_BASE", Weight.SECRET),
        ("token", Weight.KEY),
        ("tokenizer", Weight.NONE),
        ("keyboard", Weight.NONE),
        ("publicKey", Weight.NONE),
        ("author", Weight.NONE),
    ],
)
def test_what_a_name_promises(name: str, weight: Weight) -> None:
    assert weight_of(name) is weight


def test_the_table_is_one_row_per_format() -> None:
    assert len({(row.cue, row.pattern.pattern) for row in FORMATS}) == len(FORMATS)
    for row in FORMATS:
        assert row.cue.strip() and row.source and row.pattern.groups <= 1 and row.lead >= 0


_PIECES = st.one_of(
    st.sampled_from(
        [
            "password",
            "token=",
            "SECRET_KEY",
            ": ",
            " = ",
            '"',
            "'",
            "\\",
            '\\"',
            "\n",
            "\r\n",
            "(",
            "{",
            "${",
            "}",
            "://",
            ":",
            "@",
            "-----",
            "BEGIN ",
            "END ",
            "PRIVATE KEY-----",
            "kind: Secret\n",
            "data:\n",
            "  a: b1c2d3\n",
            "Bearer ",
            "--",
            "<password>",
            "</",
            "***",
            "REDACTED",
            "a1B2c3D4e5F6g7H8i9",
            "auth=(",
            ",",
            "machine ",
            "ENV ",
            ";",
            "&",
            "|",
            "\u2028",
            "é",
            "sig=",
            "eyJ",
        ]
    ),
    st.text(max_size=8),
    st.sampled_from(sorted(PLANTED.values())),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(_PIECES, max_size=24).map("".join))
@example('password: |\r\n  "x1y2z3w4"')
def test_for_any_text(text: str) -> None:
    found = find_secrets(text)
    at = 0
    for secret in found:
        assert at <= secret.start < secret.end <= len(text)
        assert "\n" not in text[secret.start : secret.end]
        at = secret.end
    clean = redact(text)
    assert redact(clean) == clean
    assert clean.count("\n") == text.count("\n")


@pytest.mark.parametrize(
    "piece",
    [
        'password="',
        "password=",
        "key",
        "a" * 40 + ".",
        "://a:",
        "://a:b1@",
        "eyJ" + "a" * 30 + ".",
        "sk-",
        "token:",
        "A" * 64 + "\\n",
        "-----BEGIN " + "PRIVATE KEY-----",
        "-----END " + "PRIVATE KEY-----",
        "Private-Lines: 1\n",
        "kind: Secret\n",
        'password(\\"',
        "x=1 password=",
        "curl -u ",
        "basic ",
        '"kty" "d":"',
        "'a1b2c3' + ",
    ],
)
def test_one_endless_line_of_anything_that_begins_a_secret(piece: str) -> None:
    """Nothing is timed here: a rule that goes back over what it has seen would not end."""
    text = piece * (30_000 // len(piece))
    clean = redact(text)
    assert len(clean) <= len(text) and redact(clean) == clean
