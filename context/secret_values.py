"""Whether a value that stands under a name is a secret.

Owns the words that make a name a secret's, and what tells a password or a key from a label, a placeholder, an identifier or an
expression. Pure questions over short strings. Refuses to find names and values in a text (`context.secrets`).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from enum import IntEnum


class Weight(IntEnum):
    """How little of a value is needed to believe it: a password may be any word, a key is long and looks like chance."""

    NONE = 0
    KEY = 1
    SECRET = 2
    PASSWORD = 3


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+", re.ASCII)
_PASSWORD = frozenset({"password", "passwd", "passwort", "passphrase", "pwd", "passcode", "userpass", "dbpass", "mnemonic"})
_SECRET = frozenset(
    {"secret", "secrets", "apisecret", "clientsecret", "secretkey", "apikey", "authtoken", "authkey", "accesskey"}
)
_KEY = frozenset(
    {"key", "token", "credential", "credentials", "cred", "creds", "auth", "authorization", "bearer", "apitoken", "accesstoken"}
)
# "pass" alone is a statement and a number of runs; with one of these before it, it is a password
_OWNS_PASS = _set(
    "admin app auth basic db ftp http imap key keystore ldap login mail my mysql pg pop postgres proxy redis root service"
    " sftp smtp sql ssh sudo truststore user wifi"
)
_SECRET_KEY = _set(
    "access account admin api app auth client consumer crypt encrypt encryption hmac jwt license master private secret"
    " service session shared sign signing storage webhook"
)
# a name that ends so tells something about a secret, not the secret
_ABOUT = _set(
    "alg algorithm attempts attr attribute box button changed class cls code codes col column config confirm confirmation"
    " count ctx desc description dir disabled enabled encoding endpoint env error errors exp expired expires expiry factory"
    " field fields file filename folder form format func function generator group handler header help helper hint host icon"
    " id ids idx index input invalid kind label len length level limit link list location manager max message method min"
    " mode model msg name names ns option optional options page param parameter parser path pattern placeholder placement"
    " policy pos position prefix prompt property provider ref regex region required reset response role rule rules schema"
    " scope scopes screen selector service size source state status store strength suffix table tag template test text"
    " timeout title ttl type types uri url usage user username validator var variable version view vocab"
)
_PUBLIC = _set(
    "bos cache continuation dict eos foreign group idempotency lookup map next node pad partition primary pub public s3"
    " search sort stop tree"
)
# whole values that say what belongs here, or that everybody writes in examples and in forms
_LABELS = _set(
    "abc abcd abcde abcdef any auth basic bearer bool boolean bytes changeit changeme credential credentials current-"
    " password current_password default digest disabled empty enabled example false file foo foobar hidden input int integer"
    " invalid kennwort key login missing mypassword mysecret mytoken n/a na new-password new_password nil no none null"
    " number object off on optional pass passcode passphrase passwd password passwort private prompt public pwd required"
    " secret str string test testing text token true undefined unknown unset user username value xxx yes your-password yyy"
    " zzz"
)
_PLACEHOLDER = re.compile(
    r"example|change[ _-]?me|your[ _-]?|placeholder|dummy|redacted|replace[ _-]?(?:me|with)|insert[ _-]|xxxx|<[^<>]*>|\.\.\."
    r"|…|\*\*\*|0000000|1234567890abcdef|not[ _-]?(?:a[ _-])?real|fake|^\[+[\w -]+\]+$",
    re.IGNORECASE,
)
# what a template fills in; a bare $NAME only where a shell would read one, since passwords hold dollars too
_HOLE = re.compile(
    r"\$?\{\{?(?:[A-Za-z_ ][^{}]{0,200}|[0-9]{0,2})\}?\}|\$\([^()]{0,200}\)|(?<![\w$@!#%])\$[A-Za-z_]\w{0,64}|#\{[^{}]{0,200}\}"
    r"|%\([^()]{0,64}\)[a-z]|%[-#0-9.]{0,8}[sdrfxv](?![A-Za-z0-9])|%[A-Z_]{2,64}%|@[A-Z_]{2,64}@|__[A-Z_]{2,64}__"
)
_EXPRESSION = re.compile(
    r"[A-Za-z_$][\w$]*(?:(?:\.|->|::|\?\.)[A-Za-z_$][\w$]*)+(?:\(.*)?|[A-Za-z_][\w.]*[\[(].*|&?\w+\*?|[!&*]\w+"
)
_PATH = re.compile(
    r"(?:[A-Za-z]:)?[\w./\\@+ -]*\.(?:asc|cer|cfg|conf|crt|der|env|gpg|html?|ini|jks|json|js|key|md|p12|pem|pfx|properties|pub"
    r"|py|sh|toml|ts|txt|xml|ya?ml)|[a-z]+://[^\s@]*|arn:[\w:/*.-]*|[~.]*/\S*(?<![A-Za-z0-9+/]{16})",
    re.ASCII,
)
# words with up to three digits at their ends, however they are joined
_WORDY = re.compile(r"[/\\.*~]*[A-Za-z]+[0-9]{0,3}(?:[\s_.,:;/\\+\-#$*()']+[A-Za-z]*[0-9]{0,3})*[.:!?]?", re.ASCII)
_LETTERS = re.compile(r"[A-Z]?[a-z]{4,}+|[A-Z]{5,}+", re.ASCII)
_CONSTANT = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+", re.ASCII)
_TOKEN = re.compile(r"[A-Za-z0-9+/_.~-]+={0,2}", re.ASCII)
_HEX = re.compile(r"[A-Fa-f0-9-]+", re.ASCII)
_PIECES = re.compile(r"[^a-z0-9]+")
_PATTERN = re.compile(r"\\[wsdbSWD]|\[\^|\(\?|\]\+|\]\*|\.\*")


def weight_of(name: str) -> Weight:
    """What the name of a variable, key, option or header promises. Its last words decide, whatever the case."""
    words = [word.lower() for word in _WORDS.findall(name[-96:])]
    while words and words[-1].isdigit():
        words.pop()
    if not words:
        return Weight.NONE
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last in _ABOUT or _PUBLIC.intersection(words):
        return Weight.NONE
    if last in ("value", "string", "str", "hash", "plain", "old", "new", "default", "base", "base64", "b") and before:
        words.pop()
        last, before = words[-1], words[-2] if len(words) > 1 else ""
        weight = _weight(last, before)
        return min(weight, Weight.SECRET)
    return _weight(last, before)


def _weight(last: str, before: str) -> Weight:
    if (
        last in _PASSWORD
        or (last == "word" and before == "pass")
        or (last == "pass" and before in _OWNS_PASS)
        or (last == "pw" and before in (*_OWNS_PASS, ""))
    ):
        return Weight.PASSWORD
    if last in _SECRET or (last == "key" and before in _SECRET_KEY):
        return Weight.SECRET
    if last == "phrase" and before in ("pass", "seed", "recovery"):
        return Weight.PASSWORD
    return Weight.KEY if last in _KEY else Weight.NONE


def is_secret(value: str, weight: Weight, *, is_indirect: bool) -> bool:
    """Whether a value under a name of that weight is one.

    is_indirect: it is an argument, a default, or compared with; not assigned.
    """
    core = _HOLE.sub("", value)
    if is_placeholder(core) or (core != value and len(core) < 12):
        return False
    if weight is Weight.PASSWORD:
        return _is_password(core, is_indirect)
    if any(char.isspace() for char in core) or _PATTERN.search(core) or _PATH.fullmatch(core) or _CONSTANT.fullmatch(core):
        return False
    if "." in core and is_expression(core):
        return False
    if weight is Weight.SECRET:
        return is_random(core, 8) or (not is_indirect and len(core) >= 8 and has_digit(core) and _n_classes(core) == 4)
    return _TOKEN.fullmatch(core) is not None and is_random(core, 12)


def is_placeholder(value: str) -> bool:
    """Whether a value only says that something belongs here."""
    bare = value.strip().removesuffix("\\n")
    return len(set(bare)) < 3 or bare.lower() in _LABELS or _PLACEHOLDER.search(bare) is not None


def is_expression(value: str) -> bool:
    """Whether an unquoted value is rather code: a name, a call, a member."""
    return _EXPRESSION.fullmatch(value) is not None


def _is_password(value: str, is_indirect: bool) -> bool:
    if any(char.isspace() for char in value):  # a sentence is a label; a phrase is words without a capital or a full stop
        words = value.split(" ")
        return (
            not is_indirect and len(words) >= 4 and all(word.isascii() and word.isalpha() and word.islower() for word in words)
        )
    if len(value) < 4 or _PATTERN.search(value) or _PATH.fullmatch(value):
        return False
    if value.isdigit():
        return not is_indirect
    if value.isalpha() or _WORDY.fullmatch(value):
        if not has_digit(value) and (is_indirect or len(value) < 6 or not (value.isalpha() and value.isascii())):
            return False
        return not _LABELS.intersection(piece.rstrip("0123456789") for piece in _PIECES.split(value.lower()))
    return _n_classes(value) >= 2 and len(value) >= (6 if is_indirect else 4)


def is_random(value: str, n_min: int) -> bool:
    """Whether a value is at least so long and looks like chance: letters and digits mixed, no words in a row, entropy."""
    if len(value) < n_min or not has_digit(value) or value.isdigit() or not any(char.isalpha() for char in value):
        return False
    if _WORDY.fullmatch(value):
        return False
    if _HEX.fullmatch(value) is None and sum(map(len, _LETTERS.findall(value))) >= 0.6 * len(value):
        return False
    return entropy(value) >= min(3.0, 0.75 * math.log2(len(value)))


def has_digit(value: str) -> bool:
    return any("0" <= char <= "9" for char in value)


def entropy(value: str) -> float:
    """Bits per character, by how often each one stands in the value (Shannon); 0 for an empty one."""
    n = len(value)
    return -sum(count / n * math.log2(count / n) for count in Counter(value).values()) if n else 0.0


def _n_classes(value: str) -> int:
    return sum(
        (
            any(char.islower() for char in value),
            any(char.isupper() for char in value),
            has_digit(value),
            any(not char.isalnum() and char not in "_-. " for char in value),
        )
    )
