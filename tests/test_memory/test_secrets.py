"""Secrets: detection, look-alikes, and no byte of a secret on disk.

Inner parts, on no face: ``tellback.memory.secrets.checks``, ``tellback.memory.secrets.patterns``,
``tellback.memory.write.policies``.
"""

import re
from pathlib import Path

import pytest

from tellback.memory import (
    ArgumentError,
    EmbeddingSettings,
    HashingEmbedder,
    KnowledgeBase,
    LongTermMemory,
    Memory,
    Message,
    NearDuplicates,
    NoSecrets,
    RejectedText,
    SecretKind,
    Source,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    open_memory,
)
from tellback.memory import run_sync as run
from tellback.memory.internals import find_secrets, redact_secrets
from tellback.memory.secrets.checks import has_luhn_checksum, is_card_number, is_password, is_wallet_key
from tellback.memory.secrets.patterns import SECRET_KINDS
from tellback.memory.write.policies import no_secrets
from tellback.vectorstore import open_store
from tests.support.secret_forms import look_alikes, secrets
from tests.support.secret_screen import measured
from tests.support.slow import first_fast

DOCS = Path(__file__).resolve().parents[2] / "docs" / "policies.md"
KEY = "ghp_" + "aB3" * 12
CODE = "k9" + "Zt4" * 9


@pytest.mark.parametrize("seed", first_fast([11, 12]))
def test_secret_screening_finds_nearly_all_secret_kinds_and_leaves_look_alikes(seed):
    print(f"seed {seed}")
    found = measured(seed, 4)
    assert found.secrets >= 40 * 4
    assert found.look_alikes >= 200
    assert found.recall >= 0.95, found.missed
    assert found.false_alarms <= 0.02, found.alarmed


def test_the_secret_screening_measure_rates_a_blind_and_an_overeager_screen():
    blind = measured(1, 1, lambda text: (text, 0))
    jumpy = measured(1, 1, lambda text: ("", 1))
    assert (blind.recall, blind.false_alarms) == (0, 0)
    assert (jumpy.recall, jumpy.false_alarms) == (1, 1)


def test_the_generated_secret_sentences_are_the_same_for_the_same_seed():
    assert list(secrets(7)) == list(secrets(7)) != list(secrets(8))
    assert list(look_alikes(7)) == list(look_alikes(7)) != list(look_alikes(8))


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("My password is hunter2.", "My password is [redacted: password]."),
        ("My wifi password is swordfish.", "My wifi password is [redacted: password]."),
        (
            "my password for the bank of Lisbon is: tr0ub4dor",
            "my password for the bank of Lisbon is: [redacted: password]",
        ),
        ('{"password": "a.b-c9"}', '{"password": "[redacted: password]"}'),
        ("two: 4111 1111 1111 1111 and PIN 12", "two: [redacted: card number] and PIN 12"),
        ("transfer it to DE89 3704 0044 0532 0130 00 today", "transfer it to [redacted: IBAN] today"),
        ("gb82west12345698765432", "[redacted: IBAN]"),
        ("AT61 1904 3002 3457 3201 IS MINE", "[redacted: IBAN] IS MINE"),
        ("the secret key 9f2c4e6a8b0d1f3e opens it", "the secret key [redacted: key in context] opens it"),
        (f"Take {KEY[:20]}\n  {KEY[20:]}.", "Take [redacted: GitHub token]."),
        (f"Take {KEY}\n{CODE} is its mark", f"Take [redacted: GitHub token]\n{CODE} is its mark"),
        ("Dana, 219-45-8812, Ohio", "Dana, [redacted: social security number], Ohio"),
        ("docker login -u ci -p plum-tree-9 r.io", "docker login -u ci -p [redacted: password] r.io"),
        (r"net use Z: \\nas\films plum9tree /user:dana", r"net use Z: \\nas\films [redacted: password] /user:dana"),
        ("ssh pass: plum-tree-9, port 22", "ssh pass: [redacted: password], port 22"),
        ('the passphrase "plum tree nine"', 'the passphrase "[redacted: password]"'),
        ("my password is S3cretPeach33!EXAMPLE", "my password is [redacted: password]"),
        ("мой пароль: plum9tree.", "мой пароль: [redacted: password]."),
        ("密码是plum9tree。好", "密码是[redacted: password]。好"),
        ("パスワードはplum9treeです", "パスワードは[redacted: password]です"),
        ("la clave del wifi es plum9tree", "la clave del wifi es [redacted: password]"),
        ("My alarm code at home is 7731", "My alarm code at home is [redacted: PIN]"),
        ("the code of the safe: 12-34-56", "the code of the safe: [redacted: PIN]"),
        (
            f"seed phrase: {'ripple ' * 12}and keep the paper in the drawer",
            "seed phrase: [redacted: seed phrase] and keep the paper in the drawer",
        ),
        ("redis://:s3cr3t@cache:6379/0", "redis://:[redacted: password in an address]@cache:6379/0"),
    ],
)
def test_redact_secrets_replaces_only_the_secret(text, kept):
    assert redact_secrets(text) == (kept, 1)


@pytest.mark.parametrize(
    "text",
    [
        "My password is stronger than yours.",
        "The password is case-sensitive.",
        "password: 12-16 characters",
        "The password was changed on 2024-05-01.",
        "pwd: /home/ann/notes1",
        "DATABASE_URL=postgres://app:${DB_PASSWORD}@db/shop",
        "DATABASE_URL=postgres://app:<password>@db/shop",
        'password = getpass("Password: ")',
        "api_key=settings.api_key2",
        "4111 1111 1111 1112",
        "4111-1111-11-111111",
        "DE89 3704 0044 0532 0130 01",
        "DE89 3704 0044 0532 0130",
        "the bank is DEUTDEFF500",
        "\u017fk31 1200 0000 1987 4263 7541",
        "seed phrase: the twelve words that I wrote on the back of the red notebook",
        "PIN 4821 items",
        f"seed phrase: {'ripple ' * 11}and so on",
        "AKIA" + "IOSFODNN7EXAMPLE, your-api-key-here",
        "api_key: my_example_api_key",
        "tests pass: 1,204 of 1,300; the pass is 2300m high",
        "psql -p 5432 shop; ssh -p 2222 ann@nas; docker run -p 8080:80 web",
        "the error code is 4041, the ZIP code is 90210; the safe distance is 1500 m",
        "part 12-345-6789 and phone 555-0123",
        "The key of the box is\nREADME.md and the\nMakefile",
    ],
)
def test_redact_secrets_leaves_a_text_that_only_mentions_secrets(text):
    assert redact_secrets(text) == (text, 0)


def test_spans_name_the_kind_and_the_place_and_never_the_words():
    text = f"a {KEY} and password: x9y8z7"
    spans = find_secrets(text)
    assert [(span.kind, text[span.start : span.end]) for span in spans] == [
        ("GitHub token", KEY),
        ("password", "x9y8z7"),
    ]
    assert KEY not in repr(spans)


def test_overlapping_finds_are_one_span_of_the_more_telling_kind():
    (span,) = find_secrets(f"api_key = {KEY}")
    assert span.kind == "GitHub token"


@pytest.mark.parametrize("digits", ["4242424242424242", "378282246310005", "6011111111111117", "30569309025904"])
def test_a_card_number_has_its_checksum_and_its_first_digits(digits):
    assert has_luhn_checksum(digits)
    assert is_card_number(digits)
    wrong = digits[:-1] + str((int(digits[-1]) + 1) % 10)
    assert not has_luhn_checksum(wrong)
    assert not is_card_number(wrong)
    assert not is_card_number("9" + digits[1:])


def test_the_checks_of_wallet_keys_and_passwords_reject_look_alikes():
    assert not is_wallet_key("5" + "J" * 50)
    assert is_password("correctHorse")
    assert not is_password("<password>")


HOSTILE = [
    *("a", "1", "1 ", "-", "eyJ", "sk-", "password ", "password is ", "my password for the thing ", "://a:", "é"),
    *("-----BEGIN PRIVATE KEY-----", "api key for x ", "seed phrase is abc ", "abc ", "pin for the ", "token=", "a."),
    *("sig=", "xprv1", "5K", "{}\"'", "curl -u ", "login x password ", "  \n", "recovery: abc, ", "bearer ", "-us"),
    *("aB3dE6gH9\n", "net use \\\\a ", "login a pass ", "ssn ", "密码是", 'password "', "door code of the "),
]


@pytest.mark.parametrize("pieces", first_fast([HOSTILE, *([piece] for piece in HOSTILE)]))
def test_redact_secrets_terminates_on_a_long_hostile_text(pieces):
    text = "".join(piece * (100_000 // len(pieces) // len(piece) + 1) for piece in pieces)
    cleaned, _ = redact_secrets(text)
    assert cleaned


def test_secret_kinds_of_the_caller_are_redacted_beside_the_built_in_kinds():
    badge = SecretKind("badge", r"BADGE-(?P<secret>[0-9]{4})", ("badge-",))
    policy = NoSecrets(also=[badge])
    decision = policy.decide(Memory(f"BADGE-1234 and {KEY}"))
    assert decision.memory.text == "BADGE-[redacted: badge] and [redacted: GitHub token]"
    assert (decision.spans, decision.reason) == (2, "secret: badge, GitHub token")
    fewer = NoSecrets(kinds=[kind for kind in policy.kinds if kind.name != "GitHub token"])
    assert fewer.decide(Memory(f"BADGE-1234 and {KEY}")).memory.text == f"BADGE-[redacted: badge] and {KEY}"


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: SecretKind("", "x"), "name"),
        (lambda: SecretKind("x", ""), "pattern"),
        (lambda: SecretKind("x", "x", ("X",)), "hints"),
        (lambda: NoSecrets("hide"), "action"),
        (lambda: NoSecrets(also=["x"]), "kinds"),
        (lambda: NoSecrets(also=[SecretKind("x", "(")]), "pattern"),
    ],
)
def test_an_invalid_secret_kind_or_action_raises(make, argument):
    with pytest.raises(ArgumentError, match=argument):
        make()


def test_the_secret_policy_screens_text_caption_tags_metadata_and_source():
    memory = Memory(
        "plain",
        caption=f"a photo of {KEY}",
        tags=("x", KEY),
        metadata={"password": "x9y8z7", "nested": {"list": ["fine", {"note": f"see {KEY}"}], KEY: 2}, KEY: 1},
        source=Source(document="a.md", title=f"on {KEY}", heading=("One", KEY)),
    )
    decision = NoSecrets().decide(memory)
    assert decision.spans == 8
    assert KEY not in repr(decision)
    assert "x9y8z7" not in repr(decision)
    assert decision.memory.metadata["nested"]["list"][0] == "fine"


@pytest.mark.parametrize("field", ["id", "key", "session", "speaker", "kind", "role"])
def test_a_secret_in_an_identifying_field_of_a_memory_rejects_it(field):
    decision = NoSecrets().decide(Memory("plain", **{field: KEY}))
    assert (decision.action, decision.reason) == ("reject", "secret: GitHub token")
    for source in (Source(session=KEY), Source(document=f"keys/{KEY}.txt")):
        assert NoSecrets().decide(Memory("plain", source=source)).action == "reject"
    for scopes in ({"project": KEY}, {KEY: "project"}):
        assert NoSecrets().decide(Memory("plain", scopes=scopes)).action == "reject"


def test_the_cache_of_harmless_names_of_the_secret_policy_is_bounded(monkeypatch):
    monkeypatch.setattr(no_secrets, "_HARMLESS_LIMIT", 3)
    policy = NoSecrets()
    for number in range(20):
        assert policy.decide(Memory("plain", speaker=f"Ann {number}")).action == "accept"
        assert len(policy._harmless) <= 3
    assert policy.decide(Memory("plain", speaker=KEY)).action == "reject"
    assert policy.decide(Memory("plain", speaker=KEY)).action == "reject"  # what was found is not taken for harmless


def test_the_secret_policy_with_action_reject_rejects_the_whole_memory():
    decision = NoSecrets("reject").decide(Memory(f"use {KEY}"))
    assert (decision.action, decision.reason, decision.memory) == ("reject", "secret: GitHub token", None)


@pytest.mark.parametrize("action", ["redact", "reject"])
def test_no_write_call_leaves_a_byte_of_a_secret_on_disk(tmp_path, action):
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "keys.md").write_text(f"# Access\n\nThe API key is {CODE}.\n\nThe house is red.\n")
    home = tmp_path / "home"
    home.mkdir()
    memory = LongTermMemory(open_store(f"sqlite:///{home / 'm.db'}"), policies=[NoSecrets(action)])
    kept = run(memory.remember("The house is red."))
    reports = [run(memory.remember(Memory(f"use {KEY}", metadata={"token": CODE})))]
    reports += run(memory.remember_many([f"the token is {CODE}", "The garden is green."]))[:1]
    call = ToolCallBlock(id="c", name="log_in", arguments={"password": "x9y8z7", "data": [{KEY: KEY}]})
    result = ToolResultBlock(call_id="c", name="log_in", content=(TextBlock(text=f"token: {CODE}"),))
    items = [
        Message.user(f"my key is {KEY}"),
        Message.assistant([TextBlock(text="I log in."), call]),
        Message.tool([result]),
        Message.assistant(f"Your key {KEY} works."),
    ]
    turn = run(memory.remember_turn("s", items))
    reports += [turn[0], turn[2], turn[3]]
    assert {report.outcome for report in reports} == {"redacted" if action == "redact" else "rejected"}
    assert turn[2].spans == (4 if action == "redact" else 0)  # three in what was asked, one in what was answered
    if action == "redact":
        assert run(memory.correct(kept.id, f"The key of the house is {KEY}.")).spans == 1
    report = run(KnowledgeBase(memory).ingest(notes))
    assert any("taken out" in note or "rejected" in note for line in report.lines for note in line.notes)
    history = [item.message for item in run(memory.conversations.load("s"))]
    assert history[1].blocks[1].arguments == {
        "password": "[redacted: password]",
        "data": [{"[redacted: GitHub token]": "[redacted: GitHub token]"}],
    }
    run(memory.close())
    for path in home.iterdir():
        data = path.read_bytes()
        for secret in (KEY, CODE, "x9y8z7"):
            assert secret.encode() not in data, path.name


@pytest.mark.parametrize("action", ["redact", "reject"])
def test_an_import_leaves_no_byte_of_a_secret_on_disk(tmp_path, action):
    source = LongTermMemory(open_store(f"sqlite:///{tmp_path / 'open.db'}"))
    run(source.remember(f"use {KEY}"))
    run(source.remember_turn("s", [Message.user(f"the token is {CODE}"), Message.assistant("Noted.")]))
    run(source.remember_turn(KEY, [Message.user("The garden is green.")]))
    named = tmp_path / f"{KEY}.md"
    named.write_text("The house is red.")
    run(KnowledgeBase(source).ingest(named))
    run(source.export(tmp_path / "all.jsonl"))
    run(source.close())
    home = tmp_path / "home"
    home.mkdir()
    memory = LongTermMemory(open_store(f"sqlite:///{home / 'm.db'}"), policies=[NoSecrets(action)])
    KnowledgeBase(memory)  # documents are taken then
    run(memory.import_(tmp_path / "all.jsonl", trust="user"))
    assert len(run(memory.conversations.load("s"))) == 2
    assert run(memory.count()) == (3 if action == "redact" else 1)
    run(memory.close())
    for path in home.iterdir():
        data = path.read_bytes()
        assert KEY.encode() not in data, path.name
        assert CODE.encode() not in data, path.name


def test_a_file_or_a_session_that_is_named_by_a_secret_is_refused_without_a_byte_of_it(tmp_path):
    notes, home = tmp_path / "notes", tmp_path / "home"
    for folder in (notes, home, notes / KEY):
        folder.mkdir()
    for name in (f"{KEY}.md", f"{KEY}/plain.md", "plain.md"):
        (notes / name).write_text(f"The house is red. {len(name)}")
    memory = LongTermMemory(open_store(f"sqlite:///{home / 'm.db'}"), policies=[NoSecrets()])
    lines = {line.source: line.action for line in run(KnowledgeBase(memory).ingest(notes)).lines}
    hidden = "[redacted: GitHub token]"
    assert lines == {f"{hidden}.md": "skipped", f"{hidden}/plain.md": "skipped", "plain.md": "added"}
    with pytest.raises(ArgumentError, match="session: a name that holds no secret is needed") as caught:
        run(memory.remember_turn(KEY, [Message.user("The garden is green.")]))
    assert KEY not in str(caught.value)
    run(memory.close())
    for path in home.iterdir():
        assert KEY.encode() not in path.read_bytes(), path.name


@pytest.mark.parametrize("action", ["redact", "reject"])
def test_the_embedding_cache_keeps_no_vector_of_a_secret_screened_for_near_duplicates(tmp_path, action):
    """Near-duplicates are looked for before the secret is taken out; what the cache keeps, nobody could forget."""
    memory = open_memory(
        tmp_path / "m.db",
        embedder=HashingEmbedder(dimension=16),
        policies=[NearDuplicates(), NoSecrets(action)],
        embedding_settings=EmbeddingSettings(cache_bytes=1 << 20),
    )

    def kept(text):
        cache = memory.embedding._cache
        return cache.get(memory.embedder.fingerprint, "document", [text]) != [None]

    plain = run(memory.remember("The house is red.")).id
    other = run(memory.remember("The house is old.")).id
    assert kept("The house is red.")
    ways = [
        lambda text: memory.remember(text),
        lambda text: memory.remember_many([text]),
        lambda text: memory.remember_turn("s", [Message.user(text)]),
        lambda text: memory.correct(plain, text),
        lambda text: memory.merge([plain, other], text),
    ]
    for number, way in enumerate(ways):
        text = f"use {KEY} at door {number}"
        try:
            run(way(text))
        except RejectedText:
            assert (action, number >= 3) == ("reject", True)
        assert not kept(text), number
    run(memory.close())


def test_history_keeps_messages_without_secrets_byte_for_byte():
    memory = LongTermMemory(open_store("numpy:"), policies=[NoSecrets()])
    items = [Message.user("I moved.", name="Ann"), Message.assistant("To where?")]
    run(memory.remember_turn("s", items))
    assert [item.message for item in run(memory.conversations.load("s"))] == items


def test_the_secret_kinds_are_listed_in_the_documentation():
    text = DOCS.read_text(encoding="utf-8")
    listed = text[text.index("<!-- kinds -->") : text.index("<!-- end of kinds -->")]
    assert set(re.findall(r"^- (.+)$", listed, flags=re.M)) == {kind.name for kind in SECRET_KINDS}
