"""Patterns of the secrets that are recognised: a name, a pattern and, where shape alone says too little, a check.

The patterns are bounded and have no nested repeats, so that a long hostile text costs no more than its length. Each
has *hints*, one of which must occur before its pattern is tried at all. ``scanner`` finds them in a text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

from tellback.memory.errors import ArgumentError
from tellback.memory.secrets.checks import (
    IBAN_LENGTHS,
    is_card_number,
    is_iban,
    is_key,
    is_no_placeholder,
    is_password,
    is_password_word,
    is_wallet_key,
)

_WORD_START: Final = r"(?<![A-Za-z0-9_\-])"


@dataclass(frozen=True, slots=True)
class SecretKind:
    """Kind of secret: *pattern* finds candidates; *check* decides whether one can be a secret.

    Where the pattern has a group "secret", that group alone is the secret, else all that matched. *hints* are
    lower-case texts of which one must occur in the text; none means that the pattern is always tried.
    """

    name: str
    pattern: str
    hints: tuple[str, ...] = ()
    check: Callable[[str], bool] | None = None

    def __post_init__(self) -> None:
        for field in ("name", "pattern"):
            if not isinstance(getattr(self, field), str) or not getattr(self, field).strip():
                raise ArgumentError(field, getattr(self, field), "a text that is not blank is needed")
        if any(hint != hint.lower() or not hint for hint in self.hints):
            raise ArgumentError("hints", self.hints, "lower-case texts are needed")

    @property
    def compiled(self) -> re.Pattern[str]:
        """The pattern ready for use; made when it is first needed, since there are many."""
        return _compile_pattern(self.pattern)


@cache
def _compile_pattern(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ArgumentError("pattern", pattern, f"a regular expression is needed ({error})") from error


def _key_kind(name: str, prefix: str, rest: str, *hints: str) -> SecretKind:
    return SecretKind(name, f"{_WORD_START}{prefix}{rest}", hints or (prefix.lower(),), is_no_placeholder)


_PROVIDER_KEYS: Final = (
    _key_kind(
        "AWS access key id", "(?:AKIA|ASIA|ABIA|ACCA)", r"[A-Z0-9]{16}(?![A-Z0-9])", "akia", "asia", "abia", "acca"
    ),
    _key_kind("GitHub token", "gh[pousr]_", r"[A-Za-z0-9]{36,255}", "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
    _key_kind("GitHub token", "github_pat_", r"[A-Za-z0-9_]{22,255}"),
    _key_kind("GitLab token", "gl(?:pat|ptt|dt|rt|cbt|soat|ft|imt|agent)-", r"[A-Za-z0-9_\-]{20,300}", "gl"),
    _key_kind("Anthropic key", "sk-ant-", r"[A-Za-z0-9_\-]{20,300}"),
    _key_kind("OpenRouter key", "sk-or-", r"[A-Za-z0-9_\-]{20,300}"),
    _key_kind(
        "OpenAI key", "sk-", r"(?:proj-|svcacct-|admin-|None-)?(?=[A-Za-z_\-]{0,200}[0-9])[A-Za-z0-9_\-]{20,300}"
    ),
    _key_kind("Google API key", "AIza", r"[A-Za-z0-9_\-]{35}"),
    _key_kind("Google OAuth secret", "GOCSPX-", r"[A-Za-z0-9_\-]{24,40}"),
    _key_kind("Google access token", r"ya29\.", r"[A-Za-z0-9_\-]{20,600}", "ya29."),
    _key_kind("Slack token", "xox[abeoprs]-", r"[A-Za-z0-9\-]{10,300}", "xox"),
    _key_kind("Slack app token", "xapp-", r"[A-Za-z0-9\-]{10,300}"),
    _key_kind("Stripe key", "(?:sk|rk)_(?:live|test)_", r"[A-Za-z0-9]{16,300}", "_live_", "_test_"),
    _key_kind("webhook secret", "whsec_", r"[A-Za-z0-9+/=]{24,100}"),
    _key_kind("Hugging Face token", "(?:hf|api_org)_", r"[A-Za-z0-9]{30,60}", "hf_", "api_org_"),
    _key_kind("Groq key", "gsk_", r"[A-Za-z0-9]{40,80}"),
    _key_kind("xAI key", "xai-", r"[A-Za-z0-9]{40,120}"),
    _key_kind("Replicate token", "r8_", r"[A-Za-z0-9]{37}"),
    _key_kind("Perplexity key", "pplx-", r"[A-Za-z0-9]{40,60}"),
    _key_kind("npm token", "npm_", r"[A-Za-z0-9]{36}"),
    _key_kind("PyPI token", "pypi-AgE", r"[A-Za-z0-9_\-]{40,300}"),
    _key_kind("Docker token", "dckr_(?:pat|oat)_", r"[A-Za-z0-9_\-]{20,60}", "dckr_"),
    _key_kind("SendGrid key", r"SG\.", r"[A-Za-z0-9_\-]{16,32}\.[A-Za-z0-9_\-]{32,64}", "sg."),
    _key_kind("Twilio key", "SK", r"[0-9a-f]{32}(?![0-9a-f])", "sk"),
    _key_kind("Mailgun key", "key-", r"[0-9a-f]{32}(?![0-9a-f])"),
    _key_kind("Mailchimp key", "[0-9a-f]{32}", r"-us[0-9]{1,2}\b", "-us"),
    _key_kind("Telegram bot token", "[0-9]{8,10}", r":AA[A-Za-z0-9_\-]{33}(?![A-Za-z0-9_\-])", ":aa"),
    _key_kind(
        "Discord token", "[MNO][A-Za-z0-9_\\-]{23,27}", r"\.[A-Za-z0-9_\-]{6}\.[A-Za-z0-9_\-]{27,40}", *("m", "n", "o")
    ),
    _key_kind("DigitalOcean token", "do[opr]_v1_", r"[0-9a-f]{64}", "_v1_"),
    _key_kind("Shopify token", "shp(?:at|ca|pa|ss|ua)_", r"[0-9a-fA-F]{32}", "shp"),
    _key_kind("Square token", "(?:sq0(?:atp|csp|idp)-|EAAA)", r"[A-Za-z0-9_\-]{22,100}", "sq0", "eaaa"),
    _key_kind("Databricks token", "dapi", r"[0-9a-f]{32}(?:-[0-9])?"),
    _key_kind("Linear key", "lin_(?:api|oauth)_", r"[A-Za-z0-9]{32,64}", "lin_"),
    _key_kind("Notion token", "(?:secret_|ntn_)", r"[A-Za-z0-9]{40,50}(?![A-Za-z0-9])", "secret_", "ntn_"),
    _key_kind("Atlassian token", "ATATT3", r"[A-Za-z0-9_=\-]{80,300}"),
    _key_kind("Postman key", "PMAK-", r"[0-9a-f]{24}-[0-9a-f]{34}"),
    _key_kind("Vault token", "hv[sbr]\\.", r"[A-Za-z0-9_\-]{24,300}", "hvs.", "hvb.", "hvr."),
    _key_kind("Grafana token", "gl(?:c|sa)_", r"[A-Za-z0-9+/=_]{32,400}", "glc_", "glsa_"),
    _key_kind("Sentry token", "sntry[su]_", r"[A-Za-z0-9+/=_]{40,400}", "sntry"),
    _key_kind("Figma token", "figd_", r"[A-Za-z0-9_\-]{36,60}"),
    _key_kind("Airtable token", "pat[A-Za-z0-9]{14}", r"\.[0-9a-f]{64}", "pat"),
    _key_kind("Supabase token", "sbp_", r"[0-9a-f]{40}"),
    _key_kind("PlanetScale token", "pscale_(?:tkn|oauth|pw)_", r"[A-Za-z0-9_\-.]{32,64}", "pscale_"),
    _key_kind("New Relic key", "NRAK-", r"[A-Z0-9]{27}"),
    _key_kind("age key", "AGE-SECRET-KEY-1", r"[A-Z0-9]{58}"),
    SecretKind(
        "webhook address",
        r"https://(?:hooks\.slack\.com/(?:services|workflows)|discord(?:app)?\.com/api/webhooks|"
        r"[a-z0-9]{1,40}\.webhook\.office\.com/webhookb2)/[A-Za-z0-9_/@\-]{20,300}",
        ("hooks.slack.com", "webhook"),
    ),
)

_IBAN: Final = (
    r"(?<![A-Za-z0-9_])(?=[A-Za-z]{2}[0-9]{2})(?ai:"
    + "|".join(
        f"(?:{countries.replace(' ', '|')})[0-9]{{2}}(?:[ \\u00a0-]?[A-Z0-9]){{{length - 4}}}"
        for length, countries in IBAN_LENGTHS.items()
    )
    + r")(?![A-Za-z0-9_])"
)

_SECRETS_BY_SHAPE: Final = (
    SecretKind(
        "private key",
        r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?:[A-Za-z0-9+/=\s\\:,.]|-(?!----)){0,20000}"
        r"-----END (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
        r"|[A-Za-z0-9+/=\s\\]{0,20000})",
        ("private key",),
    ),
    SecretKind(
        "JSON web token",
        _WORD_START + r"eyJ[A-Za-z0-9_\-]{10,4000}\.eyJ[A-Za-z0-9_\-]{10,8000}\.[A-Za-z0-9_\-]{16,2000}",
        ("eyj",),
    ),
    SecretKind(
        "password in an address",
        r"[A-Za-z][A-Za-z0-9+.\-]{1,20}://[^\s:/@\"'<>]{0,100}:(?P<secret>[^\s/@\"'<>]{1,200})@[A-Za-z0-9\[]",
        ("://",),
        is_no_placeholder,
    ),
    SecretKind(
        "account key",
        r"(?i)(?:AccountKey|SharedAccessKey|sharedaccesssignature)\s?=\s?(?P<secret>[A-Za-z0-9+/=%&]{30,200})",
        ("accountkey", "sharedaccess"),
        is_no_placeholder,
    ),
    SecretKind(
        "signed address",
        r"[?&](?:sig|X-Amz-Signature|X-Goog-Signature)=(?P<secret>[A-Za-z0-9%+/=]{32,600})",
        ("sig=", "signature="),
    ),
    SecretKind(
        "authorization header",
        r"(?i)\b(?:authorization\"?\s{0,2}[:=]\s{0,2}\"?(?:bearer|basic|token)|bearer)\s{1,2}"
        r"(?P<secret>[A-Za-z0-9._~+/=\-]{16,4000})",
        ("authorization", "bearer"),
        is_key,
    ),
    SecretKind(
        "social security number",
        r"(?<![\w.\-])(?!000|666|9)[0-9]{3}-(?!00)[0-9]{2}-(?!0000)[0-9]{4}(?![\w\-]|\.[0-9])",
    ),
    SecretKind("card number", r"(?<![\w.\-])[0-9](?:[ \-]?[0-9]){12,18}(?![\w\-]|\.[0-9])", (), is_card_number),
    SecretKind("IBAN", _IBAN, (), is_iban),
    SecretKind(
        "wallet key",
        _WORD_START + r"(?:[5KL][1-9A-HJ-NP-Za-km-z]{50,51}|xprv[1-9A-HJ-NP-Za-km-z]{100,112})",
        (),
        is_wallet_key,
    ),
)

# What a secret is called, whose it is, what links both to it, and the secret: the kinds below are made of these.
_PHRASE_NAME: Final = (
    r"(?:pass ?(?:word|wd|phrase|code|wort)|kennwort|pwd|\bpw\b|mot de passe|contrase(?:ñ|n)a|\bclave|senha|wachtwoord"
    r"|has(?:ł|l)o|парол[ья]|密[码碼]|口令|パスワード|暗証番号|비밀번호)[a-z0-9_]{0,20}"
)
_PHRASE_HINTS: Final = (
    *("pass", "kennwort", "pwd", "pw", "contrase", "clave", "senha", "wachtwoord", "hasł", "haslo"),
    *("парол", "密", "口令", "パスワード", "暗証", "비밀번호"),
)
_KEY_NAME: Final = (
    r"(?:(?:api|secret|access|private|encryption|auth|signing|deploy|master)[_\- ]?key|secret|token(?!i[sz])"
    r"|credential)[a-z0-9_]{0,20}"
)
_KEY_HINTS: Final = ("key", "secret", "token", "credential")
_GUARDED: Final = r"(?:alarm|door|safe|gate|garage|entry|intercom|keypad|key ?box|lock ?box|t(?:ü|ue)r|alarma|puerta)"
_PLACE_CODE: Final = (
    rf"(?:{_GUARDED}(?:\W?s)?(?: [a-z]{{1,12}})?[ \-]?(?:code|combination|pin)|(?:code|combination|c(?:ó|o)digo)"
    rf" (?:of|for|to|de|für)(?: [a-z]{{1,12}}){{0,3}} {_GUARDED})"
)
_OF: Final = (
    r"(?: (?:for|to|of|on|at|für|vo[mn]|zu[mr]?|mein\w{0,2}|de|du|del|d[ao]|от|для|к)(?: [\w.@\-]{1,30}){1,5}?)?"
)
_SIGN: Final = (
    r"[\"'`”)]?\s{0,2}(?::=|=>|->|[:=\uff1a\uff1d]|\b(?:is|was|lautet|ist|est|es|é|è|это)\b:?|[是为為はが은는])\s{0,2}"
)
_OPEN: Final = "[\"'`“(]?"
_WORD: Final = r"(?P<secret>[!-~]{4,200}(?=[\u3000-\u30ff\u4e00-\u9fff\uac00-\ud7af\uff00-\uffef])|\S{4,200})"
_STRONG: Final = r"(?P<secret>[A-Za-z0-9_\-./+=~!@#$%^&*]{8,600})"
_JOINING: Final = "the|and|for|are|was|not|but|his|her|has|had|our|who|how|its|she|him|did"
_SEED_WORD: Final = rf"(?:[0-9]{{1,2}}[.)]?[ \t]{{0,2}})?(?!(?:{_JOINING})\b)[a-z]{{3,8}}"

_SECRETS_BY_CONTEXT: Final = (
    SecretKind("password", rf"(?i){_PHRASE_NAME}{_OF}{_SIGN}{_WORD}", _PHRASE_HINTS, is_password),
    SecretKind("password", rf"(?i)\bpass\s?[:=]\s?(?=\S{{0,200}}[a-z]){_WORD}", ("pass",), is_password),
    SecretKind(
        "password",
        r"(?i)\b(?:my|our|the|his|her|their|your)(?: [\w\-]{1,20}){0,3} (?:password|passcode|passphrase)"
        r"(?: (?:for|to|of|on)(?: [\w.@\-]{1,30}){1,5}?)? (?:is|was) (?:now |still |just )?"
        r"(?P<secret>[A-Za-z]{5,40})(?=[.!]?(?:\s*$|\s*\n|[.!] ))",
        ("passw", "passc", "passphrase"),
        is_password_word,
    ),
    SecretKind(
        "password",
        rf"(?i){_PHRASE_NAME}(?:{_OF}{_SIGN}|\s{{1,2}})[\"'“](?P<secret>[^\"'“”\n]{{4,120}})[\"'”]",
        _PHRASE_HINTS,
        is_no_placeholder,
    ),
    SecretKind(
        "password",
        r"(?i)\bpass ?phrase ?(?:is|was|:|=) ?(?P<secret>[a-z]{2,12}(?:[ \-][a-z]{2,12}){3,9})(?=[.!]?\s*(?:$|\n))",
        ("phrase",),
    ),
    SecretKind(
        "password",
        r"(?i)\b(?:login|user(?:name)?)[ :=]{1,2}\S{1,60}[ ,;/|]{1,3}(?:pass(?:word|wd)?|pw|pwd)[ :=]{1,2}"
        r"(?P<secret>\S{4,200})",
        ("login", "user"),
        is_password,
    ),
    SecretKind(
        "password",
        r"(?:--pass(?:word|wd)?[ =]|\b(?:sshpass|mysql\w{0,8}|mariadb\w{0,8}|login)\b[^\n]{0,80}? -p ?"
        r"|\bredis-cli\b[^\n]{0,80}? -a |\bldap\w{1,10}\b[^\n]{0,80}? -w "
        r"|\bcurl\b[^\n]{0,80}? (?:-u|--user) ?[^\s:]{1,60}:"
        r"|\bnet use\b[^\n]{0,100}?(?:\\\\\S{1,100}|/user:\S{1,60}) (?!/))(?P<secret>\S{4,200})",
        ("--pass", "sshpass", "mysql", "mariadb", "login", "redis-cli", "ldap", "curl", "net use"),
        is_no_placeholder,
    ),
    SecretKind("password", rf"(?i){_PHRASE_NAME}\s{{1,2}}{_OPEN}{_STRONG}", _PHRASE_HINTS, is_key),
    SecretKind("key in context", rf"(?i){_KEY_NAME}(?:{_OF}{_SIGN}|\s{{1,2}}){_OPEN}{_STRONG}", _KEY_HINTS, is_key),
    SecretKind(
        "PIN",
        rf"(?i)\b(?:(?:pin(?: code| number)?|cv[vc]2?|card security code){_OF}{_SIGN}|{_PLACE_CODE}{_OF}(?:{_SIGN}|\s))"
        r"(?P<secret>[0-9]{3,8}|[0-9]{1,2}(?:-[0-9]{1,2}){2,4})(?![\w.,:]?[0-9])"
        r"(?! (?:items|characters|digits|minutes|hours|days|people|times)\b)",
        ("pin", "cv", "security code", "code", "combination", "código", "codigo"),
    ),
    SecretKind(
        "social security number",
        r"(?i)\b(?:ssn|social security (?:number|no\.?))(?: (?:of|for)(?: [\w.\-]{1,30}){1,3}?)?"
        rf"(?:{_SIGN}|\s{{1,2}})(?P<secret>[0-9]{{3}}[ \-]?[0-9]{{2}}[ \-]?[0-9]{{4}})(?![\w\-])",
        ("ssn", "social security"),
    ),
    SecretKind(
        "seed phrase",
        r"(?i)\b(?:seed|mnemonic|(?:recovery|backup|wallet)(?= (?:seed|phrase|words?|code)))"
        r"(?: (?:seed|phrase|words?|code)){0,3}"
        r"(?: (?:for|of|to)(?: [\w\-]{1,20}){1,4}?)?\s{0,2}(?:[:=]|\b(?:is|are|was)\b:?)\s{0,3}"
        rf"(?P<secret>{_SEED_WORD}(?:[,\s]{{1,3}}{_SEED_WORD}){{11}}(?:(?:[,\s]{{1,3}}{_SEED_WORD}){{3}}){{0,4}})",
        ("seed", "recovery", "mnemonic", "backup", "wallet"),
    ),
)

SECRET_KINDS: Final[tuple[SecretKind, ...]] = (*_PROVIDER_KEYS, *_SECRETS_BY_SHAPE, *_SECRETS_BY_CONTEXT)
"""Everything that is recognised unless other kinds are given; one's own are added by ``NoSecrets(also=[…])``."""
