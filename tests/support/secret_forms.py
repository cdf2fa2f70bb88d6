"""Sentences with secrets and sentences that only look so, drawn from one seed: the test data of secret screens.

No secret here is anybody's: each is drawn at random in its provider's shape, with checksums where the shape has one.
The shapes are put together from parts, so that no scanner takes this file for a leak.
"""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256

_ALNUM = string.ascii_letters + string.digits
_HEX = "0123456789abcdef"
_UPPER = string.ascii_uppercase + string.digits
_URL = _ALNUM + "-_"
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_NOUNS = """\
ripple scissors kick mammal hire column oak again sun offer wealth tomorrow wagon turn fatal letter absurd
avoid scheme
pioneer crater gadget velvet orbit maple tunnel canyon fabric puzzle ladder hybrid lemon shrimp tornado zebra
whale knife marble noodle pepper quantum rocket salmon timber unfold vacuum walnut yellow anchor bridge"""
_WORDS = _NOUNS.split()
_SAYINGS = (
    "Please keep this: {}",
    "{}",
    "I set it up yesterday, it is {} for now",
    'config = {{"value": "{}"}}',
    "export THING={}\nthen run the job",
    "Here it comes: {}. Do not share it!",
    "Use `{}` until Friday.",
)


@dataclass(frozen=True, slots=True)
class Case:
    """A *text* of one *form*; *secret* is what must not be left in it, None where nothing is."""

    form: str
    text: str
    secret: str | None = None


def _drawn(rng: random.Random, letters: str, count: int) -> str:
    """Return *count* of *letters*, with a digit among them, as every provider's keys have."""
    drawn = [rng.choice(letters) for _ in range(count)]
    drawn[rng.randrange(count)] = rng.choice(string.digits)
    return "".join(drawn)


def _card(rng: random.Random, prefix: str, length: int) -> str:
    digits = prefix + "".join(rng.choice(string.digits) for _ in range(length - len(prefix) - 1))
    total = sum(
        (2 * int(digit) - 9 if int(digit) > 4 else 2 * int(digit)) if place % 2 == 0 else int(digit)
        for place, digit in enumerate(reversed(digits))
    )
    return digits + str(-total % 10)


def _iban(rng: random.Random) -> str:
    """Return an invented German IBAN with its checksum, in groups of four."""
    account = _drawn(rng, string.digits, 18)
    check = 98 - int(account + "131400") % 97
    whole = f"DE{check:02}{account}"
    return " ".join(whole[start : start + 4] for start in range(0, len(whole), 4))


def _social(rng: random.Random) -> str:
    """Return an invented social security number of the United States, of a range that is given out."""
    return f"{rng.randrange(1, 665):03}-{rng.randrange(1, 99):02}-{rng.randrange(1, 9999):04}"


def _broken(token: str) -> str:
    """Return *token* as a terminal or a mail breaks it: over two lines."""
    return f"{token[: len(token) // 2]}\n{token[len(token) // 2 :]}"


def _wallet(rng: random.Random) -> str:
    data = b"\x80" + rng.randbytes(32) + b"\x01"
    number = int.from_bytes(data + sha256(sha256(data).digest()).digest()[:4], "big")
    encoded = ""
    while number:
        number, rest = divmod(number, 58)
        encoded = _BASE58[rest] + encoded
    return encoded


def _web_token(rng: random.Random) -> str:
    parts = ({"alg": "HS256", "typ": "JWT"}, {"sub": str(rng.randrange(10**9)), "iat": rng.randrange(10**9)})
    head = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*head, _drawn(rng, _URL, 43)])


def _pem(rng: random.Random, kind: str) -> str:
    body = base64.b64encode(rng.randbytes(600)).decode()
    lines = [body[position : position + 64] for position in range(0, len(body), 64)]
    return "\n".join([f"-----BEGIN {kind}PRIVATE " + "KEY-----", *lines, f"-----END {kind}PRIVATE " + "KEY-----"])


def _password(rng: random.Random) -> str:
    word = rng.choice(_WORDS)
    return rng.choice(
        [
            f"{word.capitalize()}{rng.randrange(10, 9999)}{rng.choice('!?#$')}",
            _drawn(rng, _ALNUM + "!#%&", rng.randrange(8, 20)),
            f"{word}{rng.choice(_WORDS).capitalize()}{rng.randrange(100)}",
            f"{word}-{rng.choice(_WORDS)}-{rng.randrange(10, 99)}",
        ]
    )


_KEYS: dict[str, Callable[[random.Random], str]] = {
    "AWS access key id": lambda r: "AKI" + "A" + _drawn(r, _UPPER, 16),
    "GitHub token": lambda r: r.choice(("ghp", "gho", "ghs")) + "_" + _drawn(r, _ALNUM, 36),
    "GitHub fine-grained": lambda r: "github_" + "pat_" + _drawn(r, _ALNUM, 22) + "_" + _drawn(r, _ALNUM, 59),
    "GitLab token": lambda r: "glp" + "at-" + _drawn(r, _URL, 20),
    "OpenAI key": lambda r: "sk" + "-" + _drawn(r, _ALNUM, 48),
    "OpenAI project key": lambda r: "sk-" + "proj-" + _drawn(r, _URL, 120),
    "Anthropic key": lambda r: "sk-" + "ant-api03-" + _drawn(r, _URL, 95),
    "Google API key": lambda r: "AI" + "za" + _drawn(r, _URL, 35),
    "Google OAuth secret": lambda r: "GOC" + "SPX-" + _drawn(r, _URL, 28),
    "Slack token": lambda r: (
        "xox" + "b-" + "-".join(_drawn(r, string.digits, 12) for _ in "ab") + "-" + _drawn(r, _ALNUM, 24)
    ),
    "Stripe key": lambda r: "sk_" + "live_" + _drawn(r, _ALNUM, 24),
    "Hugging Face token": lambda r: "hf" + "_" + _drawn(r, _ALNUM, 34),
    "Groq key": lambda r: "gs" + "k_" + _drawn(r, _ALNUM, 52),
    "npm token": lambda r: "np" + "m_" + _drawn(r, _ALNUM, 36),
    "PyPI token": lambda r: "py" + "pi-AgEIcHlwaS5vcmc" + _drawn(r, _URL, 120),
    "SendGrid key": lambda r: "S" + "G." + _drawn(r, _URL, 22) + "." + _drawn(r, _URL, 43),
    "Telegram bot token": lambda r: _drawn(r, string.digits[1:], 10) + ":A" + "A" + _drawn(r, _URL, 33),
    "Discord token": lambda r: "M" + _drawn(r, _ALNUM, 25) + "." + _drawn(r, _URL, 6) + "." + _drawn(r, _URL, 38),
    "DigitalOcean token": lambda r: "dop" + "_v1_" + _drawn(r, _HEX, 64),
    "Shopify token": lambda r: "shp" + "at_" + _drawn(r, _HEX, 32),
    "Databricks token": lambda r: "dap" + "i" + _drawn(r, _HEX, 32),
    "Vault token": lambda r: "hv" + "s." + _drawn(r, _URL, 90),
    "Twilio key": lambda r: "S" + "K" + _drawn(r, _HEX, 32),
    "JSON web token": _web_token,
    "private key": lambda r: _pem(r, r.choice(("", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "))),
    "Slack webhook": lambda r: (
        "https://hooks.slack.com/" + f"services/T{_drawn(r, _UPPER, 8)}/B{_drawn(r, _UPPER, 8)}/{_drawn(r, _ALNUM, 24)}"
    ),
    "card, plain": lambda r: _card(r, r.choice(("4", "51", "55", "2301", "6011")), 16),
    "card, American Express": lambda r: _card(r, r.choice(("34", "37")), 15),
    "wallet key": _wallet,
}

_TOLD: dict[str, tuple[str, Callable[[random.Random], str]]] = {
    "card, in groups": ("my card is {}, valid until 08/29", lambda r: _grouped(_card(r, "5" + r.choice("12345"), 16))),
    "IBAN, in groups": ("transfer it to {} by Friday", _iban),
    "database address": ("DATABASE_URL=postgres://app:{}@db.internal:5432/shop", _password),
    "broker address": ("it connects to amqps://worker:{}@mq.example.org/vhost now", lambda r: _drawn(r, _ALNUM, 24)),
    "storage key": (
        "DefaultEndpointsProtocol=https;AccountName=shop;AccountKey={};EndpointSuffix=core.windows.net",
        lambda r: base64.b64encode(r.randbytes(64)).decode(),
    ),
    "authorization header": (
        'curl -H "Authorization: Bearer {}" https://api.example.org',
        lambda r: _drawn(r, _ALNUM, 40),
    ),
    "AWS secret key": ("aws_secret_access_key = {}", lambda r: _drawn(r, _ALNUM + "/+", 40)),
    "key in the environment": ("WEATHER_API_KEY={}", lambda r: _drawn(r, _ALNUM, 32)),
    "key in words": ("my API key for the maps service is {}, keep it", lambda r: _drawn(r, _HEX, 40)),
    "client secret": ('"client_secret": "{}",', lambda r: _drawn(r, _URL, 36)),
    "password, assigned": ("DB_PASSWORD={}", _password),
    "password, in JSON": ('{{"user": "ann", "password": "{}"}}', _password),
    "password, told": ("My password for the router is {}", _password),
    "password, one word": ("Remember that my Netflix password is {}.", lambda r: r.choice(_WORDS) + r.choice(_WORDS)),
    "password, German": ("Das Passwort für das WLAN lautet {}", _password),
    "password, noted": ("wifi: Lighthouse\npassword: {}\nrouter in the cellar", _password),
    "password, on the command line": ("mysql -h db -u root --password={} shop", _password),
    "PIN": ("the PIN for my debit card is {}", lambda r: f"{r.randrange(10_000):04}"),
    "passphrase": ("passphrase: {}", lambda r: " ".join(r.sample(_WORDS, 5))),
    "seed phrase": ("My seed phrase is: {}", lambda r: " ".join(r.sample(_WORDS, 12))),
    "seed phrase, numbered": (
        "recovery phrase:\n{}",
        lambda r: "\n".join(f"{position}. {item}" for position, item in enumerate(r.sample(_WORDS, 24), 1)),
    ),
    "netrc": ("machine git.example.org login ann password {}", _password),
    "key without a sign": ("the secret key {} opens the staging bucket", lambda r: _drawn(r, _HEX, 32)),
    "key named and quoted": ('here is our access token "{}" until March', lambda r: _drawn(r, _ALNUM, 40)),
    "key, Spanish": ("La clave de la API es {}.", lambda r: _drawn(r, _ALNUM, 32)),
    "token over two lines": (
        "The deploy job uses {} every night",
        lambda r: _broken("ghp" + "_" + _drawn(r, _ALNUM, 36)),
    ),
    "project key over two lines": ("OPENAI={}\n", lambda r: _broken("sk-" + "proj-" + _drawn(r, _ALNUM, 96))),
    "key over two lines": ("api_key: {}\nregion: eu", lambda r: _broken(_drawn(r, _HEX, 64))),
    "social security number": ("Dana, born 1984, {}, lives in Ohio", _social),
    "social security number, plain": ("my social security number is {}", lambda r: _social(r).replace("-", "")),
    "docker login": ("docker login registry.example.org -u ci -p {}", _password),
    "helm login": ("helm registry login -u ci --password={} r.example.org", _password),
    "net use": (r"net use Z: \\nas\films {} /user:dana", _password),
    "net use, user first": (r"net use \\nas\films /user:HOME\dana {}", _password),
    "redis": ("redis-cli -h cache -a {} ping", lambda r: _drawn(r, _ALNUM, 20)),
    "openssl": ("openssl rsa -in k.pem -passin pass:{}", _password),
    "pass": ("server: backup.lan, ssh pass: {}", _password),
    "login and pass": ("login dana / pass {}", _password),
    "passphrase, quoted": ('unlock the disk with the passphrase "{}"', lambda r: " ".join(r.sample(_WORDS, 4))),
    "seed phrase and more words": (
        "seed phrase: {} please write this down on paper and never photograph it",
        lambda r: " ".join(r.sample(_WORDS, 12)),
    ),
    "password with a word of samples": ("my password is {}", lambda r: _password(r) + r.choice(("EXAMPLE", "-your-1"))),
    "secret key with a word of samples": ("aws_secret_access_key={}", lambda r: _drawn(r, _ALNUM, 33) + "EXAMPLE"),
    "password, Russian": ("Мой пароль от почты: {}", _password),
    "password, Russian sentence": ("пароль для вайфая это {}", _password),
    "password, Chinese": ("我的路由器密码是{}，别忘了", _password),
    "password, Japanese": ("Wi-Fiのパスワードは{}です。", _password),
    "password, Korean": ("와이파이 비밀번호는 {} 입니다", _password),
    "password, Spanish": ("La clave del wifi es {}", _password),
    "password, Spanish formal": ("la contraseña de la cuenta es {}", _password),
    "password, French": ("Le mot de passe du coffre est {}", _password),
    "password, Portuguese": ("a senha do roteador é {}", _password),
    "alarm code": ("My alarm code at home is {}", lambda r: f"{r.randrange(10_000):04}"),
    "door code": ("To get in, the code for the front door is {}.", lambda r: f"{r.randrange(100_000):05}"),
    "safe": ("The combination of our safe: {}", lambda r: "-".join(str(r.randrange(10, 60)) for _ in "abc")),
    "garage": ("garage door code {} (ask Mum)", lambda r: f"{r.randrange(10_000):04}"),
    "PIN, German": ("Die PIN meiner Karte ist {}", lambda r: f"{r.randrange(10_000):04}"),
    "PIN, Spanish": ("El código de la alarma es {}", lambda r: f"{r.randrange(10_000):04}"),
}


def _grouped(digits: str) -> str:
    return " ".join(digits[position : position + 4] for position in range(0, 16, 4))


def secrets(seed: int, each: int = 1) -> Iterator[Case]:
    """Yield *each* sentences of every form, a secret in each."""
    rng = random.Random(seed)
    for _ in range(each):
        for form, make in _KEYS.items():
            secret = make(rng)
            saying = "{}" if form == "private key" else rng.choice(_SAYINGS)
            yield Case(form, saying.format(secret), secret)
        for form, (saying, make) in _TOLD.items():
            secret = make(rng)
            yield Case(form, saying.format(secret), secret)


_ALIKE: tuple[Callable[[random.Random], str], ...] = (
    lambda r: f"fixed in commit {_drawn(r, _HEX, 40)}",
    lambda r: f"see {_drawn(r, _HEX, 7)}..{_drawn(r, _HEX, 7)} on main",
    lambda r: f"sha256:{_drawn(r, _HEX, 64)}",
    lambda r: f"md5sum {_drawn(r, _HEX, 32)}  backup.tar.gz",
    lambda r: f'"integrity": "sha512-{base64.b64encode(r.randbytes(64)).decode()}"',
    lambda r: f"request id {_uuid(r)} failed twice",
    lambda r: f"the user {_uuid(r)} has token_count: {r.randrange(100_000)}",
    lambda r: f"![chart](data:image/png;base64,{base64.b64encode(r.randbytes(900)).decode()})",
    lambda r: f"data:font/woff2;base64,{base64.b64encode(r.randbytes(300)).decode()}",
    lambda r: f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{_drawn(r, _ALNUM, 43)} ann@laptop",
    lambda r: (
        "-----BEGIN CERTIFICATE-----\n" + base64.b64encode(r.randbytes(500)).decode() + "\n-----END CERTIFICATE-----"
    ),
    lambda r: (
        "-----BEGIN PUBLIC KEY-----\n" + base64.b64encode(r.randbytes(90)).decode() + "\n-----END PUBLIC KEY-----"
    ),
    lambda r: f"order {r.randrange(10**15, 10**16)} will arrive on Tuesday",
    lambda r: f"parcel {r.randrange(10**11, 10**12)}, invoice {r.randrange(10**7, 10**8)}",
    lambda r: f"call me on +49 {r.randrange(100, 999)} {r.randrange(10**6, 10**7)}",
    lambda r: f"ISBN 978-{r.randrange(10)}-{r.randrange(1000, 9999)}-{r.randrange(1000, 9999)}-{r.randrange(10)}",
    lambda r: f"IBAN DE00 {' '.join(str(r.randrange(1000, 9999)) for _ in range(4))} {r.randrange(10, 99)}",
    lambda r: f"timestamp {r.randrange(10**12, 2 * 10**12)} to {r.randrange(10**18, 2 * 10**18)}",
    lambda r: f"the grid was {' '.join(str(r.randrange(10)) for _ in range(r.randrange(13, 19)))}",
    lambda r: f"https://example.org/watch?v={_drawn(r, _URL, 11)}&list={_drawn(r, _URL, 34)}",
    lambda r: f"https://cdn.example.org/assets/main.{_drawn(r, _HEX, 20)}.js",
    lambda r: f"http://localhost:{r.randrange(1024, 65535)}/@ann/notes",
    lambda r: "postgres://user:<password>@localhost/db and redis://:${REDIS_PASSWORD}@cache:6379",
    lambda r: f"git@github.com:ann/tools-{r.randrange(99)}.git",
    lambda r: (
        "the password is "
        + r.choice(("wrong", "required", "too short", "stored in a vault", "case-sensitive", "expired"))
    ),
    lambda r: (
        f"Passwords must have {r.randrange(8, 12)}-{r.randrange(16, 64)} characters and {r.randrange(1, 3)} digits."
    ),
    lambda r: f"I forgot my password again and reset it on {r.randrange(1, 28)} May {r.randrange(2019, 2026)}.",
    lambda r: "My password is stronger than yours. My sister's password was leaked.",
    lambda r: 'password = getpass.getpass("Password: ")',
    lambda r: f'api_key = os.environ["WEATHER_API_KEY_{r.randrange(9)}"]',
    lambda r: "token = tokenizer.encode(text)[0]; secret = load_secret(name)",
    lambda r: f"max_tokens={r.randrange(100, 99_999)}, token: str = Field(default=...)",
    lambda r: f'api_key: "YOUR_API_KEY", secret: "{"x" * r.randrange(8, 40)}"',
    lambda r: f"API_KEY=<your key here>, TOKEN=${{CI_TOKEN_{r.randrange(9)}}}",
    lambda r: "The secret of good bread is patience; the key is steam and a hot stone.",
    lambda r: f"The meeting code word was {r.choice(_WORDS)}, the pin was bent in {r.randrange(1900, 1999)}.",
    lambda r: f"pin {r.randrange(1, 40)} of the connector is ground; error code {r.randrange(100, 9999)}",
    lambda r: (
        f"postal code {r.randrange(10_000, 99_999)}, country code {r.randrange(10, 99)}, area {r.randrange(100, 999)}"
    ),
    lambda r: (
        f"MAC {':'.join(_drawn(r, _HEX, 2) for _ in range(6))}, IPv6 fe80::{_drawn(r, _HEX, 4)}:{_drawn(r, _HEX, 4)}"
    ),
    lambda r: f"version {r.randrange(9)}.{r.randrange(99)}.{r.randrange(999)}+build.{_drawn(r, _HEX, 8)}",
    lambda r: f"ETag: W/{_drawn(r, _HEX, 32)}; request {_drawn(r, _UPPER, 26)}",
    lambda r: f"doi:10.{r.randrange(1000, 9999)}/s{r.randrange(10**4, 10**5)}-{r.randrange(100, 999)}-{r.randrange(9)}",
    lambda r: f"arn:aws:iam::{r.randrange(10**11, 10**12)}:role/Backup-{_drawn(r, _UPPER, 8)}",
    lambda r: f"colours #{_drawn(r, _HEX, 6)} and #{_drawn(r, _HEX, 6)}, model sk-learn-{r.randrange(9)}",
    lambda r: f"milk eggs bread butter cheese apples carrots onions garlic pasta rice {r.choice(_WORDS)}",
    lambda r: f"my backup is on the disk {r.choice(_WORDS)} and the recovery of the plants took {r.randrange(9)} weeks",
    lambda r: f"const a{r.randrange(99)}=function(e,t){{return e.key===t.token?{r.randrange(99)}:n(e)}}",
    lambda r: f"docker pull registry.example.org/app@sha256:{_drawn(r, _HEX, 64)}",
    lambda r: f"public key fingerprint SHA256:{_drawn(r, _ALNUM + '+/', 43)}",
    lambda r: (
        f"the pass is {r.randrange(1000, 3000)}m high; tests pass: {r.randrange(1, 9)},{r.randrange(100, 999)} of all"
    ),
    lambda r: (
        f"docker run -p {r.randrange(1024, 9999)}:80 web; psql -p {r.randrange(1024, 9999)} shop; ssh -p 2222 ann@nas"
    ),
    lambda r: (
        f"the error code is {r.randrange(1000, 9999)}, ZIP code is {r.randrange(10_000, 99_999)}, dialling code 0049"
    ),
    lambda r: f"the safe distance is {r.randrange(1000, 9999)} m; the alarm went off at {r.randrange(10, 23)}:30",
    lambda r: f"The door is {r.randrange(1000, 2200)} mm high and the code base has {r.randrange(1000, 9999)} lines",
    lambda r: (
        f"part 12-{r.randrange(100, 999)}-{r.randrange(1000, 9999)}, phone 555-{r.randrange(1000, 9999)}, on 2024-11-05"
    ),
    lambda r: f"the secret key of page {r.randrange(1000, 9999)} and the access token endpoint /oauth2/token",
    lambda r: f"net use of water was {r.randrange(1000, 9999)} litres in {r.randrange(1990, 2026)}",
    lambda r: f"the seed of the run is {r.randrange(10**6)}, the wallet is brown leather with {r.randrange(9)} pockets",
    lambda r: f"built from {_drawn(r, _HEX, 40)}\n{_drawn(r, _HEX, 40)} README.md\n{_drawn(r, _HEX, 40)}",
    lambda r: "La clave del éxito es la paciencia. Пароль неверный. 密码是必填的。パスワードは必須です。",
    lambda r: (
        f"Das Passwort ist zu kurz; le mot de passe est obligatoire; la contraseña es de {r.randrange(8, 20)} letras"
    ),
    lambda r: 'api_key = "AKIA' + 'IOSFODNN7EXAMPLE" or your-api-key-here, password: example, token: my_example_token',
    lambda r: f"stripe publishable pk_live_{_drawn(r, _ALNUM, 24)} is meant to be seen",
)


def look_alikes(seed: int, each: int = 4) -> Iterator[Case]:
    """Yield *each* sentences of every form that look as if a secret were in them; none is."""
    rng = random.Random(seed)
    for _ in range(each):
        for number, make in enumerate(_ALIKE):
            yield Case(f"look-alike {number}", make(rng))


def _uuid(rng: random.Random) -> str:
    return "-".join(_drawn(rng, _HEX, count) for count in (8, 4, 4, 4, 12))
